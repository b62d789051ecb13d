// Command plugin-example serves the example plugin of the kubelet's own plugin
// watcher: somebody else's idea of what registers at a kubelet. It prints a line of
// JSON for each registration status that it is told.
//
// The plugin tells the path it listens at as its endpoint. To stand for a CSI driver
// with a registrar, let it listen at the driver's path, move its socket to the
// registration directory, and only then start the driver. (A signal makes it remove the
// path it listened at; kill it when that is the driver's by now.)
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"strings"
	"syscall"
	"unsafe"

	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/pluginwatcher"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "plugin-example:", err)
		os.Exit(1)
	}
}

func serve() error {
	socket := flag.String("socket", "", "unix socket to listen on (required)")
	name := flag.String("name", "example.csi.test", "name of the plugin")
	kind := flag.String("type", registerapi.CSIPlugin, "type of the plugin")
	versions := flag.String("versions", "1.0.0", "versions it supports, separated by commas")
	deaf := flag.Bool("deaf", false, "never answer when told a status")
	flag.Parse()
	if *socket == "" {
		return fmt.Errorf("--socket is required")
	}

	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer cancel()
	plugin := pluginwatcher.NewTestExamplePlugin(*name, *kind, *socket, strings.Split(*versions, ",")...)
	if err := plugin.Serve(ctx, "v1beta1", "v1beta2"); err != nil {
		return err
	}
	fmt.Println(`{"serving": true}`)
	if !*deaf {
		go tell(plugin)
	}
	<-ctx.Done()
	return plugin.Stop(context.Background())
}

// tell prints what the plugin is told. It hands each status to a channel and waits until
// it is taken. The field is meant for the tests of its own package, and there is no other
// way to it than this.
func tell(plugin any) {
	field := reflect.ValueOf(plugin).Elem().FieldByName("registrationStatus")
	told := reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem()
	for {
		status, open := told.Recv()
		if !open {
			return
		}
		registered := status.FieldByName("PluginRegistered").Bool()
		line, _ := json.Marshal(map[string]any{"registered": registered, "error": status.FieldByName("Error").String()})
		fmt.Println(string(line))
	}
}
