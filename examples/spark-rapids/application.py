"""A SparkApplication with the RAPIDS Accelerator on a pool, by the models of Kubeflow's Spark operator.

Reads what `gpupool snippet --for sparkapplication --format json` prints, and prints the whole object.
"""

from __future__ import annotations

import sys

from kubeflow_spark_api.models import SparkV1beta2SparkApplication

application = SparkV1beta2SparkApplication.from_json(sys.stdin.read())
application.metadata.name = "rapids"
application.spec.executor.instances = 2
application.spec.spark_conf = {
    "spark.plugins": "com.nvidia.spark.SQLPlugin",
    "spark.executor.resource.gpu.amount": "1",
    "spark.executor.resource.gpu.vendor": "nvidia.com",
    "spark.executor.resource.gpu.discoveryScript": "/opt/sparkRapidsPlugin/getGpusResources.sh",
    "spark.task.resource.gpu.amount": "0.1",
    "spark.rapids.sql.concurrentGpuTasks": "2",
}
print(application.to_json())
