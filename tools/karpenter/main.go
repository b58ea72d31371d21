// Karpenter with its KWOK provider, listening on loopback alone.
//
// Its options give ports and no addresses (METRICS_PORT, HEALTH_PROBE_PORT; operator.NewOperator writes ":PORT"), so
// the addresses are set where it hands them to controller-runtime. Everything else is Karpenter's own wiring.
package main

import (
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

const loopback = "127.0.0.1"

func main() {
	ctrl.NewManager = func(config *rest.Config, options manager.Options) (manager.Manager, error) {
		options.Metrics.BindAddress = loopback + options.Metrics.BindAddress
		options.HealthProbeBindAddress = loopback + options.HealthProbeBindAddress
		return manager.New(config, options)
	}
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		panic(err)
	}
	simulated := kwok.NewCloudProvider(ctx, op.GetClient(), types)
	provider := overlay.Decorate(simulated, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), provider)
	all := controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, provider, simulated, cluster, op.InstanceTypeStore,
	)
	op.WithControllers(ctx, all...).Start(ctx)
}
