package core

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
	"mainstay.dev/mainstay/internal/apitest/alloctest"
	"mainstay.dev/mainstay/internal/feature"
)

func newConfigMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {2}}}
}

func TestConfigMaps(t *testing.T) {
	t.Parallel()
	type configMap = corev1.ConfigMap
	rules := validationtest.Rules[configMap](validateConfigMap)
	text := strings.Repeat("x", corev1.MaxSecretSize-1)
	rules.Create(t, newConfigMap, []validationtest.Case[configMap]{
		{Name: "1 MiB", Change: func(m *configMap) { m.Data["a"] = text }},
		{Name: "a byte more", Change: func(m *configMap) { m.Data["a"] = text + "x" }, Want: []string{"[]: Too long: may not be more than 1048576 bytes"}},
		{Name: "keys of all characters", Change: func(m *configMap) { m.Data = map[string]string{"-": "", ".a": "", "_A.9-": "", "...": ""} },
			Want: []string{"data[...]: Invalid value: \"...\": must not start with '..'"}},
		{Name: "a slash in a key", Change: func(m *configMap) { m.BinaryData["x/y"] = nil }, Want: []string{"binaryData[x/y]: Invalid value"}},
		{Name: "a key in both", Change: func(m *configMap) { m.BinaryData["a"] = nil }, Want: []string{`data[a]: Invalid value: "a": duplicate of key present in binaryData`}},
	})
	frozenMap := func() *configMap { m := newConfigMap(); m.Immutable = new(true); return m }
	rules.Update(t, newConfigMap, []validationtest.Case[configMap]{
		{Name: "another value", Change: func(m *configMap) { m.Data["a"] = "2" }},
		{Name: "immutable from now on", Change: func(m *configMap) { m.Data, m.Immutable = nil, new(true) }},
	})
	rules.Update(t, frozenMap, []validationtest.Case[configMap]{
		{Name: "labels", Change: func(m *configMap) { m.Labels = map[string]string{"a": "b"} }},
		{Name: "no longer immutable", Change: func(m *configMap) { m.Immutable = new(false) }, Want: []string{"immutable: Forbidden: " + frozen}},
		{Name: "all of it", Change: func(m *configMap) { *m = configMap{} },
			Want: []string{"immutable: Forbidden: ", "data: Forbidden: ", "binaryData: Forbidden: "}},
		{Name: "other bytes", Change: func(m *configMap) { m.BinaryData["b"] = []byte{3} }, Want: []string{"binaryData: Forbidden: "}},
	})
}

func typed(of corev1.SecretType, data map[string]string) func(*corev1.Secret) {
	return func(s *corev1.Secret) {
		s.Type, s.Data = of, map[string][]byte{}
		for key, value := range data {
			s.Data[key] = []byte(value)
		}
	}
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	type secret = corev1.Secret
	rules := validationtest.Rules[secret](validateSecret)
	opaque := func() *secret { return &secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"a": {1}}} }
	rules.Create(t, opaque, []validationtest.Case[secret]{
		{Name: "over 1 MiB", Change: func(s *secret) { s.Data["b"] = make([]byte, corev1.MaxSecretSize) }, Want: []string{"data: Too long: may not be more than 1048576 bytes"}},
		{Name: "a bad key", Change: func(s *secret) { s.Data[".."] = nil }, Want: []string{"data[..]: Invalid value"}},
		{Name: "a token of nobody", Change: typed(corev1.SecretTypeServiceAccountToken, nil),
			Want: []string{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
		{Name: "a token", Change: func(s *secret) {
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "sa"}
		}},
		{Name: "credentials", Change: typed(corev1.SecretTypeDockerConfigJson, map[string]string{".dockerconfigjson": "{}"})},
		{Name: "credentials under the wrong key", Change: typed(corev1.SecretTypeDockercfg, map[string]string{".dockerconfigjson": "{}"}),
			Want: []string{"data[.dockercfg]: Required value"}},
		{Name: "credentials in a list", Change: typed(corev1.SecretTypeDockercfg, map[string]string{".dockercfg": "[]"}),
			Want: []string{`data[.dockercfg]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into Go value of type map[string]interface {}`}},
		{Name: "an empty password", Change: typed(corev1.SecretTypeBasicAuth, map[string]string{"password": ""})},
		{Name: "nobody", Change: typed(corev1.SecretTypeBasicAuth, nil), Want: []string{"data[username]: Required value", "data[password]: Required value"}},
		{Name: "an empty key", Change: typed(corev1.SecretTypeSSHAuth, map[string]string{"ssh-privatekey": ""}), Want: []string{"data[ssh-privatekey]: Required value"}},
		{Name: "an empty certificate", Change: typed(corev1.SecretTypeTLS, map[string]string{"tls.crt": ""}), Want: []string{"data[tls.key]: Required value"}},
	})
	rules.Update(t, opaque, []validationtest.Case[secret]{
		{Name: "another type", Change: func(s *secret) { s.Type = "a/b" }, Want: []string{`type: Invalid value: "a/b": field is immutable`}},
		{Name: "immutable from now on", Change: func(s *secret) { s.Immutable = new(true) }},
	})
	rules.Update(t, func() *secret { s := opaque(); s.Immutable = new(true); return s }, []validationtest.Case[secret]{
		{Name: "another value", Change: func(s *secret) { s.Data["a"] = []byte{2} }, Want: []string{"data: Forbidden: " + frozen}},
		{Name: "no longer immutable", Change: func(s *secret) { s.Immutable = nil }, Want: []string{"immutable: Forbidden: " + frozen}},
	})
}

// BenchmarkValidateConfigMap validates a ConfigMap with 100,000 keys.
func BenchmarkValidateConfigMap(b *testing.B) {
	m, validator := &corev1.ConfigMap{Data: map[string]string{}}, validation.NewValidator(feature.Defaults())
	for i := range 100_000 {
		m.Data["key-"+strconv.Itoa(i)] = "value"
	}
	b.ReportAllocs()
	for b.Loop() {
		if faults := validator.Validate(b.Context(), func(f validation.Field) { validateConfigMap(f, m, nil) }); len(faults) > 0 {
			b.Fatal(faults[0])
		}
	}
}

func allocations[T any](t *testing.T, rules func(f validation.Field, obj, old *T), obj *T) {
	t.Helper()
	validator, ctx := validation.NewValidator(feature.Defaults()), t.Context()
	alloctest.None(t, fmt.Sprintf("%T", obj), func() {
		if faults := validator.Validate(ctx, func(f validation.Field) { rules(f, obj, nil) }); len(faults) > 0 {
			t.Fatal(faults.ToAggregate())
		}
	})
}

// TestValidObjectsDoNotAllocate checks that validation of a valid object does not allocate.
func TestValidObjectsDoNotAllocate(t *testing.T) {
	allocations(t, validateConfigMap, newConfigMap())
	allocations(t, validateSecret, &corev1.Secret{Data: map[string][]byte{"a": nil}})
	allocations(t, validateNode, newNode())
	allocations(t, validatePersistentVolume, newVolume())
	allocations(t, validateVolumeClaim, newClaim())
	allocations(t, validateEndpoints, newEndpoints())
	allocations(t, validateEvent, newReport())
	allocations(t, validateResourceQuota, &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{
		Hard: amounts("pods", "1"), Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeTerminating},
	}})
	allocations(t, validateLimitRange, &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Min: amounts("cpu", "1"), Max: amounts("cpu", "2"), MaxLimitRequestRatio: amounts("cpu", "2"),
	}}}})
}
