// Package all lists the built-in API groups. It is the only package that imports all of them;
// package builtin imports none.
package all

import (
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/admissionregistration"
	"mainstay.dev/mainstay/internal/apis/builtin/apiextensions"
	"mainstay.dev/mainstay/internal/apis/builtin/apiregistration"
	"mainstay.dev/mainstay/internal/apis/builtin/apiserverinternal"
	"mainstay.dev/mainstay/internal/apis/builtin/apps"
	"mainstay.dev/mainstay/internal/apis/builtin/authentication"
	"mainstay.dev/mainstay/internal/apis/builtin/authorization"
	"mainstay.dev/mainstay/internal/apis/builtin/autoscaling"
	"mainstay.dev/mainstay/internal/apis/builtin/batch"
	"mainstay.dev/mainstay/internal/apis/builtin/certificates"
	"mainstay.dev/mainstay/internal/apis/builtin/coordination"
	"mainstay.dev/mainstay/internal/apis/builtin/core"
	"mainstay.dev/mainstay/internal/apis/builtin/discovery"
	"mainstay.dev/mainstay/internal/apis/builtin/flowcontrol"
	"mainstay.dev/mainstay/internal/apis/builtin/lifecycle"
	"mainstay.dev/mainstay/internal/apis/builtin/networking"
	"mainstay.dev/mainstay/internal/apis/builtin/node"
	"mainstay.dev/mainstay/internal/apis/builtin/policy"
	"mainstay.dev/mainstay/internal/apis/builtin/rbac"
	"mainstay.dev/mainstay/internal/apis/builtin/resource"
	"mainstay.dev/mainstay/internal/apis/builtin/scheduling"
	"mainstay.dev/mainstay/internal/apis/builtin/storage"
	"mainstay.dev/mainstay/internal/apis/builtin/storagemigration"
)

// Groups returns all groups in discovery order. A group without resources reserves the position of resources
// that another group declares.
func Groups() []builtin.Group {
	return []builtin.Group{
		core.V1(),
		apiregistration.V1(),
		apps.V1(),
		{GroupVersion: eventsv1.SchemeGroupVersion}, // the core group declares events
		authentication.V1(),
		authorization.V1(),
		autoscaling.V2(),
		batch.V1(),
		certificates.V1(),
		networking.V1(),
		policy.V1(),
		rbac.V1(),
		storage.V1(),
		admissionregistration.V1(),
		apiextensions.V1(),
		scheduling.V1(),
		coordination.V1(),
		node.V1(),
		discovery.V1(),
		resource.V1(),
		flowcontrol.V1(),
		storagemigration.V1(),

		// Kinds without a stable version.
		coordination.V1Beta1(),
		resource.V1Alpha3(),
		scheduling.V1Beta1(),
		scheduling.V1Alpha3(),
		apiserverinternal.V1Alpha1(),
		lifecycle.V1Alpha1(),
	}
}

// Versions returns all versions that --runtime-config may name, including removed versions, which
// have no effect.
func Versions() []schema.GroupVersion {
	versions := builtin.AllVersions(Groups())
	for _, gone := range [...]schema.GroupVersion{
		{Group: "admission.k8s.io", Version: "v1"}, {Group: "admission.k8s.io", Version: "v1beta1"},
		{Group: "apps", Version: "v1beta1"}, {Group: "apps", Version: "v1beta2"},
		{Group: "authentication.k8s.io", Version: "v1alpha1"}, {Group: "authentication.k8s.io", Version: "v1beta1"},
		{Group: "authorization.k8s.io", Version: "v1beta1"},
		{Group: "batch", Version: "v1beta1"},
		{Group: "certificates.k8s.io", Version: "v1alpha1"},
		{Group: "discovery.k8s.io", Version: "v1beta1"},
		{Group: "events.k8s.io", Version: "v1beta1"},
		{Group: "extensions", Version: "v1beta1"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta1"}, {Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta2"},
		{Group: "flowcontrol.apiserver.k8s.io", Version: "v1beta3"},
		{Group: "imagepolicy.k8s.io", Version: "v1alpha1"},
		{Group: "networking.k8s.io", Version: "v1beta1"},
		{Group: "node.k8s.io", Version: "v1alpha1"}, {Group: "node.k8s.io", Version: "v1beta1"},
		{Group: "policy", Version: "v1beta1"},
		{Group: "rbac.authorization.k8s.io", Version: "v1alpha1"}, {Group: "rbac.authorization.k8s.io", Version: "v1beta1"},
		{Group: "storage.k8s.io", Version: "v1alpha1"}, {Group: "storage.k8s.io", Version: "v1beta1"},
	} {
		versions = append(versions, gone)
	}
	return versions
}
