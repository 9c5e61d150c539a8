package podspec

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestDropDisabled(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ sent, want string }{
		"scheduling group":    {`{"schedulingGroup":{"podGroupName":"g"}}`, `{}`},
		"eviction responders": {`{"evictionResponders":[{"name":"n"}]}`, `{}`},
		"stop signal alone":   {`{"containers":[{"lifecycle":{"stopSignal":"SIGUSR1"}}]}`, `{"containers":[{}]}`},
		"stop signal": {
			`{"initContainers":[{"lifecycle":{"stopSignal":"SIGUSR1","preStop":{"sleep":{"seconds":1}}}}]}`,
			`{"initContainers":[{"lifecycle":{"preStop":{"sleep":{"seconds":1}}}}]}`,
		},
		"protocol of HTTP": {
			`{"ephemeralContainers":[{"startupProbe":{"httpGet":{"protocol":"H2C"}},"lifecycle":{"postStart":{"httpGet":{"protocol":"H2C"}}}}]}`,
			`{"ephemeralContainers":[{"startupProbe":{"httpGet":{}},"lifecycle":{"postStart":{"httpGet":{}}}}]}`,
		},
		"TLS of gRPC":   {`{"containers":[{"livenessProbe":{"grpc":{"mode":"TLS"}}}]}`, `{"containers":[{"livenessProbe":{"grpc":{}}}]}`},
		"mount options": {`{"containers":[{"volumeMounts":[{"bindMountOptions":["noexec"]}]}]}`, `{"containers":[{"volumeMounts":[{}]}]}`},
		"directories":   {`{"volumes":[{"emptyDir":{"mode":448}}]}`, `{"volumes":[{"emptyDir":{}}]}`},
		"owners of files": {
			`{"volumes":[{"secret":{"defaultUser":1,"items":[{"user":2}]}},{"configMap":{"defaultUser":1,"items":[{"user":2}]}},
			 {"downwardAPI":{"defaultUser":1,"items":[{"user":2}]}},{"projected":{"defaultUser":1,"sources":[
			 {"secret":{"items":[{"user":2}]}},{"configMap":{"items":[{"user":2}]}},{"downwardAPI":{"items":[{"user":2}]}},
			 {"serviceAccountToken":{"user":2}},{"clusterTrustBundle":{"user":2}},{"podCertificate":{"user":2}}]}}]}`,
			`{"volumes":[{"secret":{"items":[{}]}},{"configMap":{"items":[{}]}},{"downwardAPI":{"items":[{}]}},{"projected":{"sources":[
			 {"secret":{"items":[{}]}},{"configMap":{"items":[{}]}},{"downwardAPI":{"items":[{}]}},
			 {"serviceAccountToken":{}},{"clusterTrustBundle":{}},{"podCertificate":{}}]}}]}`,
		},
	}
	for name, test := range tests {
		read := func(text string) *corev1.PodSpec {
			spec := &corev1.PodSpec{}
			if err := json.Unmarshal([]byte(text), spec); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return spec
		}
		created, updated, kept := read(test.sent), read(test.sent), read(test.sent)
		DropDisabled(created, nil)
		DropDisabled(updated, read(test.want))
		if diff := cmp.Diff(read(test.want), created); diff != "" {
			t.Errorf("%s: created (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(read(test.want), updated); diff != "" {
			t.Errorf("%s: updated (-want +got):\n%s", name, diff)
		}
		DropDisabled(kept, read(test.sent))
		if diff := cmp.Diff(read(test.sent), kept); diff != "" {
			t.Errorf("%s: what was in use is dropped (-want +got):\n%s", name, diff)
		}
	}
	DropDisabled(nil, nil)
}
