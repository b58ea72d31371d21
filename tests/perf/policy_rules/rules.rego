# The ten rules of rules.yaml for conftest, with the same messages.
package main

import rego.v1

pod := input.spec if input.kind == "Pod"

pod := input.spec.template.spec if input.kind in {"Deployment", "Job"}

pod := input.spec.jobTemplate.spec.template.spec if input.kind == "CronJob"

job := input.spec if input.kind == "Job"

job := input.spec.jobTemplate.spec if input.kind == "CronJob"

gpu if {
	some container in pod.containers
	container.resources.limits["nvidia.com/gpu"]
}

deny contains message if {
	gpu
	not pod.nodeSelector["example.dev/pool"]
	message := sprintf("pool-named: %s %s asks for a GPU and names no pool", [input.kind, input.metadata.name])
}

pool_tolerated if {
	some toleration in pod.tolerations
	toleration.key == "example.dev/pool"
}

deny contains "taint-tolerated: a pod with a GPU tolerates the taint of its pool" if {
	gpu
	not pool_tolerated
}

deny contains "one-slice: a container takes one GPU or one slice of it" if {
	some container in pod.containers
	container.resources.limits["nvidia.com/gpu"] != "1"
}

pinned(image) if {
	contains(image, ":")
	not endswith(image, ":latest")
}

unpinned contains container.image if {
	some container in pod.containers
	not pinned(container.image)
}

deny contains message if {
	count(unpinned) > 0
	message := sprintf("image-pinned: not pinned: %s", [concat(", ", unpinned)])
}

deny contains "unprivileged: no container is privileged" if {
	some container in pod.containers
	container.securityContext.privileged
}

deny contains "unprivileged: the node's network is not for pods" if pod.hostNetwork

deny contains "unprivileged: the node's folders are not for pods" if {
	some volume in pod.volumes
	volume.hostPath
}

memory_bounded(container) if {
	units.parse_bytes(container.resources.limits.memory) <= units.parse_bytes("512Gi")
}

deny contains "memory-bounded: a container has a memory limit of at most 512Gi" if {
	some container in pod.containers
	not memory_bounded(container)
}

deny contains "jobs-end: a job is cleared away some time after it ends" if {
	job
	not job.ttlSecondsAfterFinished
}

tried_seldom if job.backoffLimit <= 6

deny contains "jobs-end: a job is tried seven times at most" if {
	job
	not tried_seldom
}

deny contains "jobs-end: a job has a deadline" if {
	job
	not job.activeDeadlineSeconds
}

deny contains message if {
	input.kind == "Service"
	input.spec.type in {"LoadBalancer", "NodePort"}
	message := sprintf("no-load-balancers: a service of type %s is reachable from outside", [input.spec.type])
}

deny contains "no-passwords: secrets belong into a Secret" if {
	input.kind == "ConfigMap"
	some key, _ in input.data
	regex.match(`(?i)password|secret|token`, key)
}

deny contains "node-pools-bounded: a node pool has limits" if {
	input.kind == "NodePool"
	count(object.get(input.spec, "limits", {})) == 0
}

expires if object.get(input.spec.template.spec, "expireAfter", "Never") != "Never"

deny contains "node-pools-bounded: nodes of a node pool expire" if {
	input.kind == "NodePool"
	not expires
}
