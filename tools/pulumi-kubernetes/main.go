// Pulumi's Kubernetes provider, as pulumi-kubernetes' own cmd/pulumi-resource-kubernetes starts it.
//
// That package embeds two files that its repository generates and its module lacks: the schema, which SDKs are made
// from, and a table that only import from Terraform reads. Programs that register resources by type token and plain
// values, as gpupool does, need neither beyond the provider's name.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	provider.Serve("kubernetes", version.Version, []byte(`{"name":"kubernetes"}`), []byte(`{}`))
}
