package coordination

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateLease(f validation.Field, lease, _ *coordinationv1.Lease) {
	f, spec := f.Child("spec"), &lease.Spec
	if n := spec.LeaseDurationSeconds; n != nil && *n <= 0 {
		f.Child("leaseDurationSeconds").Invalid(*n, "must be greater than 0")
	}
	if n := spec.LeaseTransitions; n != nil {
		f.Child("leaseTransitions").NonNegative(int64(*n))
	}
	if spec.Strategy != nil {
		validateStrategy(f.Child("strategy").Child("strategy"), *spec.Strategy) // as in kube-apiserver, the path repeats the field name
	}
	if holder := spec.PreferredHolder; holder != nil && *holder != "" && (spec.Strategy == nil || *spec.Strategy == "") {
		f.Child("preferredHolder").Forbidden("may only be specified if `strategy` is defined")
	}
}

// validateStrategy requires that a strategy is defined by Kubernetes or has a prefix.
func validateStrategy(f validation.Field, strategy coordinationv1.CoordinatedLeaseStrategy) {
	if strings.Contains(string(strategy), "/") {
		f.QualifiedName(string(strategy))
	} else {
		validation.OneOf(f, strategy, coordinationv1.OldestEmulationVersion)
	}
}
