package podspec

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/feature"
)

func TestDropDisabledFields(t *testing.T) {
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
		"label keys of spread": {`{"topologySpreadConstraints":[{"topologyKey":"z","matchLabelKeys":["a"]}]}`, `{"topologySpreadConstraints":[{"topologyKey":"z"}]}`},
		"restart rules": {
			`{"initContainers":[{"restartPolicy":"Always","restartPolicyRules":[{"action":"Restart"}]},{"restartPolicy":"Never"}],"containers":[{"restartPolicy":"Always"}]}`,
			`{"initContainers":[{"restartPolicy":"Always"},{}],"containers":[{}]}`,
		},
		"projections": {
			`{"volumes":[{"projected":{"sources":[{"clusterTrustBundle":{"path":"p"}},{"podCertificate":{"keyType":"ED25519"}}]}}]}`,
			`{"volumes":[{"projected":{"sources":[{},{}]}}]}`,
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
			 {"serviceAccountToken":{}},{},{}]}}]}`,
		},
	}
	for name, test := range tests {
		read := func(text string) *corev1.PodSpec {
			spec := &corev1.PodSpec{}
			if err := json.Unmarshal([]byte(text), spec); err != nil {
				t.Fatalf("%s: decode the pod specification: %v", name, err)
			}
			return spec
		}
		created, updated, kept := read(test.sent), read(test.sent), read(test.sent)
		DropDisabledFields(feature.Gates{}, created, nil)
		DropDisabledFields(feature.Gates{}, updated, read(test.want))
		if diff := cmp.Diff(read(test.want), created); diff != "" {
			t.Errorf("%s: created (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(read(test.want), updated); diff != "" {
			t.Errorf("%s: updated (-want +got):\n%s", name, diff)
		}
		DropDisabledFields(feature.Gates{}, kept, read(test.sent))
		if diff := cmp.Diff(read(test.sent), kept); diff != "" {
			t.Errorf("%s: fields in use are dropped (-want +got):\n%s", name, diff)
		}
	}
	DropDisabledFields(feature.Gates{}, nil, nil)
}

// TestKeepEnabled checks that the state of a gate, and not its default, determines whether its fields are
// preserved.
func TestKeepEnabled(t *testing.T) {
	t.Parallel()
	gates, err := feature.Defaults().Parse("EvictionRequestAPI=true,GenericWorkload=false")
	if err != nil {
		t.Fatal(err)
	}
	spec := &corev1.PodSpec{EvictionResponders: []corev1.EvictionResponder{{Name: "a.b/c"}}, SchedulingGroup: &corev1.PodSchedulingGroup{}}
	DropDisabledFields(gates, spec, nil)
	if len(spec.EvictionResponders) == 0 || spec.SchedulingGroup != nil {
		t.Errorf("got %+v", spec)
	}
}
