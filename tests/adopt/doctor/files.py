"""Environment files for the tests of `doctor`: with charts, Secrets, tenants and both kinds of nodes."""

EKS = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: trial}
cluster: {platform: eks, name: lab, kubeContext: fake, region: us-east-1}
gpuOperator: {driver: {enabled: false}, values: {toolkit: {enabled: false}}}
karpenter: {nodeRole: KarpenterNodeRole-lab, install: false}
pools:
  - {name: a10, gpu: a10g, nodes: {instanceTypes: [g5.xlarge, g5.12xlarge], maxGpus: 12}}
priorities:
  - {name: batch, value: 100, level: low, preemptible: true}
tenants:
  - name: vision
    namespace: team-vision
    maxPriority: batch
    pools: {a10: {gpus: 8}}
    access: {oidcGroups: [vision], serviceAccounts: [ci/deployer]}
queue:
  chart: {repository: "oci://registry.example.com/charts", version: 1.0.0, image: "registry.example.com/q:1"}
  database: {secretRef: {name: database, key: url}}
monitoring: {prometheusOperator: true}
"""

HOMELAB = """\
apiVersion: gpupool.dev/v1alpha1
kind: Environment
metadata: {name: trial}
cluster: {platform: static, name: lab, kubeContext: fake}
gpuOperator: {install: false}
pools:
  - {name: t4, gpu: t4, sharing: {mode: time-slicing, replicas: 4}, nodes: {names: [desk]}}
priorities:
  - {name: batch, value: 100, level: low}
tenants:
  - {name: vision, namespace: team-vision, maxPriority: batch, pools: {t4: {slices: 4}}}
"""
