package main

import (
	"encoding/json"
	"os"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/protoadapt"
)

// record is a file of calls in the order in which they were answered.
type record struct {
	mu   sync.Mutex
	file *os.File
}

// call is one line of it. The request has the field names of the protocol.
type call struct {
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request"`
	Code    codes.Code      `json:"code"` // its number
	Message string          `json:"message,omitempty"`
}

var plain = protojson.MarshalOptions{UseProtoNames: true}

func openRecord(path string) (*record, error) {
	if path == "" {
		return &record{}, nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	return &record{file: file}, err
}

// write adds a line before the answer is sent, so that who got the answer finds it.
func (r *record) write(method string, request any, err error) {
	if r.file == nil {
		return
	}
	line := call{Method: method, Code: status.Code(err), Request: json.RawMessage("{}")}
	if err != nil {
		line.Message = status.Convert(err).Message()
	}
	if message, ok := request.(protoadapt.MessageV1); ok { // as the bindings that Kubernetes uses are made
		if text, err := plain.Marshal(protoadapt.MessageV2Of(message)); err == nil {
			line.Request = text
		}
	}
	text, _ := json.Marshal(line) // protojson puts in spaces at random; this takes them out
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = r.file.Write(append(text, '\n'))
}
