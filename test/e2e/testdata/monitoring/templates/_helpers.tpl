{{- define "monitoring.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
release: {{ .Release.Name | quote }}
{{- end -}}

{{- define "monitoring.image" -}}
{{ .Values.image.registry }}/{{ .component }}:{{ .Values.image.tag }}
{{- end -}}

{{- /* A pod as such programs have them, given root and component. */ -}}
{{- define "monitoring.pod" -}}
metadata:
  labels: {app: {{ .component }}, release: {{ .Release.Name }}}
  annotations: {checksum/config: {{ .Values.logLevel | sha256sum }}}
spec:
  serviceAccountName: {{ .Release.Name }}-{{ .component }}
  priorityClassName: {{ .Release.Name }}-monitoring
  securityContext: {runAsNonRoot: true, runAsUser: 65534, fsGroup: 65534, seccompProfile: {type: RuntimeDefault}}
  nodeSelector: {kubernetes.io/os: linux}
  tolerations: [{effect: NoSchedule, operator: Exists}]
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: {{ .component }}}}}
  containers:
  - name: {{ .component }}
    image: {{ include "monitoring.image" . }}
    args: ["--log.level={{ .Values.logLevel }}", "--web.listen-address=:{{ .port }}"]
    ports: [{name: http, containerPort: {{ .port }}}]
    env:
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: {{ .Release.Name }}-admin, key: password, optional: true}}}
    resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
    readinessProbe: {httpGet: {path: /-/ready, port: http}, failureThreshold: 3}
    livenessProbe: {httpGet: {path: /-/healthy, port: http}, initialDelaySeconds: 10}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumeMounts:
    - {name: config, mountPath: /etc/config}
    - {name: scratch, mountPath: /tmp}
  volumes:
  - {name: config, configMap: {name: {{ .Release.Name }}-config, defaultMode: 0o440}}
  - {name: scratch, emptyDir: {sizeLimit: 64Mi}}
{{- end -}}
