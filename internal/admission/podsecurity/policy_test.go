package podsecurity_test

import (
	"testing"

	"mainstay.dev/mainstay/internal/admission/podsecurity"
)

// TestPolicyOfLabels checks that labels override defaults, that invalid levels are enforced as restricted, and
// that the enforced level is also used for warnings.
func TestPolicyOfLabels(t *testing.T) {
	t.Parallel()
	level := func(l podsecurity.Level) podsecurity.LevelVersion { return podsecurity.LevelVersion{Level: l} }
	pinned := func(l podsecurity.Level, minor int) podsecurity.LevelVersion {
		return podsecurity.LevelVersion{Level: l, Version: podsecurity.Pinned(minor)}
	}
	const privileged, baseline, restricted = podsecurity.Privileged, podsecurity.Baseline, podsecurity.Restricted
	tests := []struct {
		name     string
		labels   map[string]string
		defaults podsecurity.Policy
		want     podsecurity.Policy
		err      string
	}{
		{name: "none"},
		{name: "of others", labels: map[string]string{"a": "b"}, defaults: podsecurity.Policy{Audit: level(baseline)}, want: podsecurity.Policy{Audit: level(baseline)}},
		{name: "all", labels: map[string]string{"enforce": "baseline", "enforce-version": "v1.7", "audit": "restricted", "audit-version": "latest", "warn": "privileged", "warn-version": "v1.0"},
			want: podsecurity.Policy{Enforce: pinned(baseline, 7), Audit: level(restricted), Warn: pinned(privileged, 0)}},
		{name: "enforced is warned of", labels: map[string]string{"enforce": "restricted", "enforce-version": "v1.7"}, want: podsecurity.Policy{Enforce: pinned(restricted, 7), Warn: pinned(restricted, 7)}},
		{name: "in the version of warnings", labels: map[string]string{"enforce": "restricted", "warn-version": "v1.9"}, want: podsecurity.Policy{Enforce: level(restricted), Warn: pinned(restricted, 9)}},
		{name: "unless more is", labels: map[string]string{"enforce": "baseline"}, defaults: podsecurity.Policy{Warn: level(restricted)}, want: podsecurity.Policy{Enforce: level(baseline), Warn: level(restricted)}},
		{name: "wrong", labels: map[string]string{"enforce": "x", "enforce-version": "1.2", "audit": "", "warn": "y", "audit-version": "v1.01", "warn-version": "v2.0"},
			defaults: podsecurity.Policy{Audit: level(baseline), Warn: level(baseline)}, want: podsecurity.Policy{Enforce: level(restricted)},
			err: `[metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "x": must be one of privileged, baseline, restricted, ` +
				`metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: "1.2": must be "latest" or "v1.x", ` +
				`metadata.labels[pod-security.kubernetes.io/audit]: Invalid value: "": must be one of privileged, baseline, restricted, ` +
				`metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "v1.01": must be "latest" or "v1.x", ` +
				`metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "y": must be one of privileged, baseline, restricted, ` +
				`metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "v2.0": must be "latest" or "v1.x"]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			labels := map[string]string{}
			for key, value := range tt.labels {
				if key != "a" {
					key = podsecurity.LabelPrefix + key
				}
				labels[key] = value
			}
			got, errs := tt.defaults.With(labels)
			if got != tt.want {
				t.Errorf("policy %v, want %v", got, tt.want)
			}
			text := ""
			if len(errs) > 0 {
				text = errs.ToAggregate().Error()
			}
			if text != tt.err {
				t.Errorf("errors\n%s\nwant\n%s", text, tt.err)
			}
		})
	}
}

func FuzzParseVersion(f *testing.F) {
	for _, seed := range []string{"latest", "v1.0", "v1.37", "v1.", "v1.-1", "v1.+1", "v1.99999999999999999999", "1.2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if version, err := podsecurity.ParseVersion(text); err == nil && version.String() != text {
			t.Errorf("%q is read as %s", text, version)
		}
	})
}
