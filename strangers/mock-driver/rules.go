package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const after = "after"

// rule changes the answers of one method: in place of the driver's own, or after
// the driver has done what was asked. The file of rules is a JSON list of these;
// the first that fits a call and is not used up counts.
type rule struct {
	Method  string     `json:"method"`
	Code    codes.Code `json:"code"` // by name, such as "ABORTED", or by number
	Message string     `json:"message"`
	When    string     `json:"when"`  // "before" (also when empty) or "after" the driver did its work
	Times   int        `json:"times"` // 0: always
	Exit    bool       `json:"exit"`  // end the program instead of answering
}

func (r *rule) asError() error { return status.Error(r.Code, r.Message) }

// ruleFile is read again at each call. Calls are counted from when the content changed.
type ruleFile struct {
	path string

	mu      sync.Mutex
	content []byte
	rules   []*rule
	used    map[*rule]int
}

// next is the rule for a call of a method, or nothing.
func (f *ruleFile) next(method string) (*rule, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.read(); err != nil {
		return nil, err
	}
	for _, each := range f.rules {
		if each.Method == method && (each.Times == 0 || f.used[each] < each.Times) {
			f.used[each]++
			return each, nil
		}
	}
	return nil, nil
}

func (f *ruleFile) read() error {
	if f.path == "" {
		return nil
	}
	content, err := os.ReadFile(f.path)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if f.used != nil && bytes.Equal(content, f.content) {
		return nil
	}
	var rules []*rule
	if len(content) > 0 {
		if err := json.Unmarshal(content, &rules); err != nil {
			return fmt.Errorf("%s: %w", f.path, err)
		}
	}
	f.content, f.rules, f.used = content, rules, map[*rule]int{}
	return nil
}
