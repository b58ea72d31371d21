{{- /* What the objects share. Each takes (dict "root" $ "component" NAME), and `instance` the root. */ -}}

{{- define "instance" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "selector" -}}
{{ include "instance" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "labels" -}}
{{ include "selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The API has the release's own name, by which clients, and `gpupool assert`, find it. */ -}}
{{- define "name" -}}
{{ .root.Release.Name }}{{ if ne .component "api" }}-{{ .component }}{{ end }}
{{- end }}

{{- define "secret" -}}
valueFrom: {secretKeyRef: {name: {{ quote .name }}, key: {{ quote .key }}}}
{{- end }}

{{- /* What of a pod does not depend on what it runs. */ -}}
{{- define "pod" -}}
{{- $values := .root.Values -}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- name: {{ quote . }}
{{- end }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ quote . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "container" -}}
image: {{ quote .root.Values.image }}
imagePullPolicy: IfNotPresent
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* Environment variables of every process; the URL of the database has a password in it. A component may have a
login of its own; the migration has the owner's. */ -}}
{{- define "env" -}}
- name: HOME
  value: /tmp
- name: GPUPOOL_DATABASE_URL
  {{- include "secret" ((index .root.Values .component | default dict).database | default .root.Values.database) | nindent 2 }}
{{- end }}
