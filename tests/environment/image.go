// What a kubelet makes of the image references on stdin: [repository, tag, digest], or null for what it refuses.
package main

import (
	"encoding/json"
	"os"

	"k8s.io/kubernetes/pkg/util/parsers"
)

func main() {
	var given []string
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		panic(err)
	}
	parsed := []any{}
	for _, text := range given {
		repository, tag, digest, err := parsers.ParseImageName(text)
		if err != nil {
			parsed = append(parsed, nil)
		} else {
			parsed = append(parsed, []string{repository, tag, digest})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(parsed); err != nil {
		panic(err)
	}
}
