// The texts that a kubelet makes of those on stdin: [[text, {name: value}], ...].
package main

import (
	"encoding/json"
	"os"

	"k8s.io/kubernetes/third_party/forked/golang/expansion"
)

func main() {
	var given [][2]json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	expanded := []string{}
	for _, pair := range given {
		var text string
		values := map[string]string{}
		if json.Unmarshal(pair[0], &text) != nil || json.Unmarshal(pair[1], &values) != nil {
			panic("neither text nor variables")
		}
		expanded = append(expanded, expansion.Expand(text, expansion.MappingFuncFor(values)))
	}
	if err := json.NewEncoder(os.Stdout).Encode(expanded); err != nil {
		panic(err)
	}
}
