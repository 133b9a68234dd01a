{{- define "charonia.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "charonia.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "charonia.name" .) }}
{{- end }}

{{- define "charonia.selector" -}}
app.kubernetes.io/name: charonia-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "charonia.labels" -}}
{{ include "charonia.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
