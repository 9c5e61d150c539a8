package coordination

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

func candidate(lease, binary, emulated, strategy string) *coordinationv1beta1.LeaseCandidate {
	return &coordinationv1beta1.LeaseCandidate{Spec: coordinationv1beta1.LeaseCandidateSpec{
		LeaseName: lease, BinaryVersion: binary, EmulationVersion: emulated, Strategy: coordinationv1.CoordinatedLeaseStrategy(strategy),
	}}
}

func TestValidateCandidate(t *testing.T) {
	t.Parallel()
	const oldest = "OldestEmulationVersion"
	good := candidate("l", "1.37.0", "1.36.0", oldest)
	for _, tt := range []struct {
		name     string
		obj, old *coordinationv1beta1.LeaseCandidate
		want     []string
	}{
		{"good", good, nil, nil},
		{"the same again", good, good, nil},
		{"the same versions", candidate("l", "1.37.0", "1.37.0", oldest), nil, nil},
		{"a pre-release is older", candidate("l", "1.37.0-rc.1", "1.37.0", oldest), nil, []string{"spec.binaryVersion"}},
		{"a strategy of others needs no emulation", candidate("l", "1.37.0", "", "example.com/mine"), nil, nil},
		{"a strategy of others that is no name", candidate("l", "1.37.0", "", "example.com/a b"), nil, []string{"spec.strategy.strategy"}},
		{"an unknown strategy", candidate("l", "1.37.0", "", "Mine"), nil, []string{"spec.strategy.strategy"}},
		{"a short version", candidate("l", "1.37", "1.36.0", oldest), nil, []string{"spec.binaryVersion", "spec.binaryVersion"}},
		{"a version with a v", candidate("l", "1.37.0", "v1.36.0", oldest), nil, []string{"spec.emulationVersion", "spec.emulationVersion"}},
		{"nothing", candidate("", "", "", ""), nil, []string{"spec.leaseName", "spec.binaryVersion", "spec.strategy"}},
		{"another lease", candidate("m", "1.37.0", "1.36.0", oldest), good, []string{"spec.leaseName"}},
	} {
		faults := validation.NewValidator(feature.Defaults()).Validate(t.Context(), func(f validation.Field) { validateCandidate(f, tt.obj, tt.old) })
		var got []string
		for _, fault := range faults {
			got = append(got, fault.Field)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s:\n%s%v", tt.name, diff, faults)
		}
	}
}
