package coordination

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// candidateName requires that a name is valid as a ConfigMap key, unlike the names of most kinds.
func candidateName(name string, _ bool) []string { return apivalidation.IsConfigMapKey(name) }

func validateCandidate(f validation.Field, candidate, old *coordinationv1beta1.LeaseCandidate) {
	spec, f := &candidate.Spec, f.Child("spec")
	if spec.LeaseName == "" {
		f.Child("leaseName").Required("")
	}
	validateCandidateVersions(f, spec)
	validateCandidateStrategy(f.Child("strategy"), spec.Strategy)
	if old != nil {
		validation.Immutable(f.Child("leaseName"), spec.LeaseName, old.Spec.LeaseName)
	}
}

func validateCandidateVersions(f validation.Field, spec *coordinationv1beta1.LeaseCandidateSpec) {
	binaryField, emulatedField := f.Child("binaryVersion"), f.Child("emulationVersion")
	if spec.BinaryVersion == "" {
		binaryField.Required("")
	}
	binary := validateSemanticVersion(binaryField, spec.BinaryVersion)
	emulated := validateSemanticVersion(emulatedField, spec.EmulationVersion)
	if spec.Strategy != coordinationv1.OldestEmulationVersion {
		return
	}
	switch {
	case emulated == nil:
		emulatedField.Required("must be specified when `strategy` is 'OldestEmulationVersion'")
	case spec.BinaryVersion != "" && (binary == nil || binary.LessThan(emulated)):
		binaryField.Invalid(spec.BinaryVersion, "must be greater than or equal to `emulationVersion`")
	}
}

// validateSemanticVersion parses and returns a version. It returns nil if text is empty or invalid.
func validateSemanticVersion(f validation.Field, text string) *version.Version {
	if text == "" {
		return nil
	}
	parsed, err := version.ParseSemantic(text)
	if err != nil || strings.HasPrefix(text, "v") || strings.TrimSpace(text) != text {
		f.Invalid(text, "must be a valid semantic version")
		return nil
	}
	return parsed
}

// validateCandidateStrategy accepts the strategies that Kubernetes defines and custom strategies with a
// prefix. As in kube-apiserver, some errors are reported for a child field.
func validateCandidateStrategy(f validation.Field, strategy coordinationv1.CoordinatedLeaseStrategy) {
	below := f.Child("strategy")
	switch {
	case strategy == "":
		f.Required("")
	case strings.Contains(string(strategy), "/"):
		below.QualifiedName(string(strategy))
	default:
		validation.OneOf(below, strategy, coordinationv1.OldestEmulationVersion)
	}
}
