// Command mock-driver serves the mock CSI driver of Kubernetes' own end-to-end
// tests at a socket. It keeps its volumes in memory, makes directories and mounts
// nothing. Volumes "1", "2" and "3" are there from the start.
//
// Its answers can be changed from outside: see rules.go. Every call is written to
// --calls as one line of JSON, with secrets: it is a program for tests.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "mock-driver:", err)
		os.Exit(1)
	}
}

func serve() error {
	var config service.Config
	socket := flag.String("socket", "", "unix socket to listen on (required)")
	rules := flag.String("rules", "", "file of rules for answers, read at each call; it need not exist")
	calls := flag.String("calls", "", "file that gets a line of JSON for each call")
	noStage := flag.Bool("no-stage", false, "do not offer staging")
	noController := flag.Bool("no-controller", false, "serve no Controller service")
	flag.StringVar(&config.DriverName, "name", service.Name, "name of the driver, and id of its node")
	flag.BoolVar(&config.DisableAttach, "no-attach", false, "volumes need not be attached")
	flag.Int64Var(&config.AttachLimit, "attach-limit", 0, "how many volumes the node may have")
	flag.BoolVar(&config.NodeExpansionRequired, "node-expansion", false, "volumes are expanded on the node as well")
	flag.BoolVar(&config.DisableControllerExpansion, "no-controller-expansion", false, "do not expand in the controller")
	flag.BoolVar(&config.DisableOnlineExpansion, "offline-expansion", false, "expand only volumes that are not in use")
	flag.BoolVar(&config.NodeVolumeConditionRequired, "volume-condition", false, "tell how volumes are")
	flag.BoolVar(&config.VolumeMountGroupRequired, "mount-group", false, "take the pod's group on stage and publish")
	flag.BoolVar(&config.EnableTopology, "topology", false, "tell the node's topology")
	flag.Parse()
	if *socket == "" {
		return fmt.Errorf("--socket is required")
	}

	record, err := openRecord(*calls)
	if err != nil {
		return err
	}
	if err := os.Remove(*socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", *socket)
	if err != nil {
		return err
	}
	mock := service.New(config)
	servers := &driver.CSIDriverServers{Identity: mock, Node: mock}
	if !*noController {
		servers.Controller = mock
	}
	answers := &interceptor{rules: &ruleFile{path: *rules}, record: record, stages: !*noStage}
	program := driver.NewCSIDriver(servers)
	if err := program.Start(listener, answers.intercept); err != nil {
		return err
	}
	fmt.Println("serving") // who started us waits for this line
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM, syscall.SIGINT)
	<-stopped
	program.Stop()
	return nil
}

// interceptor stands between the caller and the mock driver, where the
// end-to-end tests have their hooks.
type interceptor struct {
	rules  *ruleFile
	record *record
	stages bool
}

func (i *interceptor) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	rule, err := i.rules.next(method)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	var response any
	switch {
	case rule != nil && rule.When != after:
		err = rule.asError()
	case !i.stages && (method == "NodeStageVolume" || method == "NodeUnstageVolume"):
		err = status.Error(codes.Unimplemented, "this driver does not stage")
	default:
		response, err = handler(ctx, request)
		if err == nil && rule != nil {
			err = rule.asError()
		}
	}
	if rule != nil && rule.Exit {
		i.record.write(method, request, status.Error(codes.Unknown, "the driver ended instead of answering"))
		os.Exit(3) // between effect and answer, or before both
	}
	i.record.write(method, request, err)
	if err != nil {
		return nil, err
	}
	if told, ok := response.(*csi.NodeGetCapabilitiesResponse); ok && !i.stages {
		return withoutStaging(told), nil
	}
	return response, nil
}

func withoutStaging(told *csi.NodeGetCapabilitiesResponse) *csi.NodeGetCapabilitiesResponse {
	rest := &csi.NodeGetCapabilitiesResponse{}
	for _, each := range told.Capabilities {
		if !strings.HasPrefix(each.GetRpc().GetType().String(), "STAGE_") {
			rest.Capabilities = append(rest.Capabilities, each)
		}
	}
	return rest
}
