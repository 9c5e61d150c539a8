package plugin

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
)

// ClusterTrustBundleAttest rejects a write of a trust bundle if the user does not have permission for its
// signer.
type ClusterTrustBundleAttest struct {
	onCreateOrUpdate
	Authorizer authorizer.Authorizer
}

var _ admission.Validator = ClusterTrustBundleAttest{}

func clusterTrustBundleAttestPlugin() Registration {
	return Registration{
		Name: ClusterTrustBundleAttest{}.Name(), Description: "rejects writes of trust bundles without the permission for the signer",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return ClusterTrustBundleAttest{Authorizer: d.Authorizer} },
	}
}

// Name implements admission.Plugin.
func (ClusterTrustBundleAttest) Name() string { return "ClusterTrustBundleAttest" }

// Validate implements admission.Validator. Updates that change only owner references, finalizers or managed
// fields, such as updates by the garbage collector, require no permission.
func (p ClusterTrustBundleAttest) Validate(ctx context.Context, a *admission.Attributes) error {
	bundle := objectOf[certificatesv1.ClusterTrustBundle](a, certificatesv1.GroupName, "clustertrustbundles")
	if bundle == nil || bundle.Spec.SignerName == "" || sameTrust(bundle, oldOf[certificatesv1.ClusterTrustBundle](a)) {
		return nil
	}
	if signer := bundle.Spec.SignerName; !isSignerAllowed(ctx, p.Authorizer, a, "attest", signer) {
		return reject(a, fmt.Errorf("user not permitted to attest for signerName %q", signer))
	}
	return nil
}

// sameTrust reports whether two bundles are equal except for owners, finalizers and managed fields. It returns
// false if old is nil.
func sameTrust(bundle, old *certificatesv1.ClusterTrustBundle) bool {
	if old == nil {
		return false
	}
	now := *bundle
	now.OwnerReferences, now.Finalizers, now.ManagedFields = old.OwnerReferences, old.Finalizers, old.ManagedFields
	return equality.Semantic.DeepEqual(&now, old)
}
