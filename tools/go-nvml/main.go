// The MIG profiles of go-nvml's mock cards, as JSON: card -> NVML's constant of a profile -> what it says.
package main

import (
	"encoding/json"
	"os"

	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/gpus"
)

type profile struct {
	Slices uint32   `json:"slices"`
	Most   uint32   `json:"most"`
	SM     uint32   `json:"sm"`
	MiB    uint64   `json:"mib"`
	Starts []uint32 `json:"starts"`
	Size   uint32   `json:"size"`
}

func main() {
	cards := map[string]gpus.Config{
		"a100-40gb": gpus.A100_SXM4_40GB,
		"a100-80gb": gpus.A100_SXM4_80GB,
		"a30":       gpus.A30_PCIE_24GB,
	}
	found := map[string]map[int]profile{}
	for key, card := range cards {
		found[key] = map[int]profile{}
		for constant, facts := range card.MIGProfiles.GpuInstanceProfiles {
			one := profile{
				Slices: facts.SliceCount,
				Most:   facts.InstanceCount,
				SM:     facts.MultiprocessorCount,
				MiB:    facts.MemorySizeMB,
			}
			for _, place := range card.MIGProfiles.GpuInstancePlacements[int(facts.Id)] {
				one.Starts, one.Size = append(one.Starts, place.Start), place.Size
			}
			found[key][constant] = one
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		panic(err)
	}
}
