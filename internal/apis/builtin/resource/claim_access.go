package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/feature"
	"mainstay.dev/mainstay/internal/request"
)

func validateClaimAccess(op *builtin.Operation, f validation.Field, claim, old *resourcev1.ResourceClaim) {
	if old == nil {
		validateAdminRequests(op, f, claim.Namespace, claim.Spec.Devices.Requests)
	}
}

func validateClaimTemplateAccess(op *builtin.Operation, f validation.Field, template, old *resourcev1.ResourceClaimTemplate) {
	if old == nil {
		validateAdminRequests(op, f, template.Namespace, template.Spec.Spec.Devices.Requests)
	}
}

func validateClaimStatusAccess(op *builtin.Operation, f validation.Field, claim, old *resourcev1.ResourceClaim) {
	f = f.Child("status")
	if given := adminResult(claim); given >= 0 && adminResult(old) < 0 {
		validateAdminAccess(op, f.Child("allocation").Child("devices").Child("results").Index(given), claim.Namespace)
	}
	if f.Enabled(feature.DRAResourceClaimGranularStatusAuthorization) && request.InfoFrom(op.Context) != nil { // writes by the server itself have no request.Info
		validateBindingAccess(op, f, claim, old)
		validateDriverAccess(op, f.Child("devices"), claim, old)
	}
}

// validateAdminRequests validates requests for admin access. As in kube-apiserver, errors contain the field
// paths of v1beta1 claims, even for templates.
func validateAdminRequests(op *builtin.Operation, f validation.Field, namespace string, requests []resourcev1.DeviceRequest) {
	asks := func(r resourcev1.DeviceRequest) bool { return r.Exactly != nil && isTrue(r.Exactly.AdminAccess) }
	if i := slices.IndexFunc(requests, asks); i >= 0 {
		validateAdminAccess(op, f.Child("spec").Child("devices").Child("requests").Index(i), namespace)
	}
}

// adminResult returns the index of the first device allocated with admin access, or -1.
func adminResult(claim *resourcev1.ResourceClaim) int {
	if claim.Status.Allocation == nil {
		return -1
	}
	return slices.IndexFunc(claim.Status.Allocation.Devices.Results,
		func(r resourcev1.DeviceRequestAllocationResult) bool { return isTrue(r.AdminAccess) })
}

func isTrue(b *bool) bool { return b != nil && *b }

// validateAdminAccess requires a label on the namespace. Admin access includes access to devices that are in
// use.
func validateAdminAccess(op *builtin.Operation, f validation.Field, namespace string) {
	f = f.Child("adminAccess")
	record, err := op.Env.Store(corev1.Resource("namespaces")).Get(op.Context, types.NamespacedName{Name: namespace}, metav1.GetOptions{})
	if err == nil {
		var object *corev1.Namespace
		if object, err = codec.SharedAs[*corev1.Namespace](record); err == nil {
			if object.Labels[resourcev1.DRAAdminNamespaceLabelKey] != "true" {
				f.Forbidden(fmt.Sprintf("admin access to devices requires the `%s: true` label on the containing namespace",
					resourcev1.DRAAdminNamespaceLabelKey))
			}
			return
		}
	}
	f.Add(field.InternalError(f.Path(), fmt.Errorf("could not retrieve namespace to verify admin access: %w", err)))
}

// validateBindingAccess requires permission to change the allocation and the reservations of claims. Schedulers
// and controllers have this permission in all namespaces.
func validateBindingAccess(op *builtin.Operation, f validation.Field, claim, old *resourcev1.ResourceClaim) {
	if !validation.Changed(claim.Status.Allocation, old.Status.Allocation) && !validation.Changed(claim.Status.ReservedFor, old.Status.ReservedFor) {
		return
	}
	asked := attributesOf(op)
	asked.Subresource, asked.Namespace, asked.Name = resourcev1.SubresourceBinding, "", ""
	if err := authorize(op, asked); err != nil {
		f.Forbidden(fmt.Sprintf(`changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="%s" permission: %s`, asked.Verb, err))
	}
}

// validateDriverAccess requires permission to report the status of a driver's devices. The permission can be
// limited to claims that are allocated to the node on which the user runs.
func validateDriverAccess(op *builtin.Operation, f validation.Field, claim, old *resourcev1.ResourceClaim) {
	drivers := changedDrivers(claim, old)
	if len(drivers) == 0 {
		return
	}
	asked := attributesOf(op)
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + asked.Verb}
	if runsOn(asked.User, allocatedNode(claim.Status.Allocation)) {
		verbs = []string{resourcev1.VerbPrefixAssociatedNode + asked.Verb, verbs[0]}
	}
	for _, driver := range drivers {
		asked.Subresource, asked.Name = resourcev1.SubresourceDriver, driver
		if err := authorizeAny(op, asked, verbs); err != nil {
			f.Forbidden(fmt.Sprintf(`changing status.devices requires resource="resourceclaims/driver", verb="%s" permission: %s`, verbs, err))
		}
	}
}

// changedDrivers returns the sorted names of the drivers for which a device status was added, changed or
// removed.
func changedDrivers(claim, old *resourcev1.ResourceClaim) []string {
	if !validation.Changed(claim.Status.Devices, old.Status.Devices) {
		return nil
	}
	before := map[deviceID]*resourcev1.AllocatedDeviceStatus{}
	for i := range old.Status.Devices {
		before[reportedDevice(&old.Status.Devices[i])] = &old.Status.Devices[i]
	}
	drivers := map[string]bool{}
	for i := range claim.Status.Devices {
		device := &claim.Status.Devices[i]
		id := reportedDevice(device)
		if was := before[id]; was == nil || !validation.Equal(device, was) {
			drivers[device.Driver] = true
		}
		delete(before, id)
	}
	for id := range before {
		drivers[id.Driver] = true
	}
	return slices.Sorted(maps.Keys(drivers))
}

// allocatedNode returns the node that an allocation selects, or "" if it does not select exactly one node by
// name.
func allocatedNode(allocation *resourcev1.AllocationResult) string {
	if allocation == nil || allocation.NodeSelector == nil || len(allocation.NodeSelector.NodeSelectorTerms) != 1 {
		return ""
	}
	term := &allocation.NodeSelector.NodeSelectorTerms[0]
	if len(term.MatchExpressions) > 0 || len(term.MatchFields) != 1 {
		return ""
	}
	name := &term.MatchFields[0]
	if name.Key != metav1.ObjectNameField || name.Operator != corev1.NodeSelectorOpIn || len(name.Values) != 1 {
		return ""
	}
	return name.Values[0]
}

// runsOn reports whether a user is a service account whose token is bound to the node or to a pod on the node.
func runsOn(user *request.User, node string) bool {
	if node == "" || user == nil || !strings.HasPrefix(user.Name, request.ServiceAccountPrefix) {
		return false
	}
	nodes := user.Extra[request.ExtraNodeName]
	return len(nodes) == 1 && nodes[0] == node
}

// attributesOf returns a copy of the attributes of the request, for additional authorization checks.
func attributesOf(op *builtin.Operation) authorizer.Attributes {
	return authorizer.AttributesOf(request.UserFrom(op.Context), request.InfoFrom(op.Context))
}

// authorizeAny returns nil if any of the verbs is allowed, and otherwise the error for the first verb.
func authorizeAny(op *builtin.Operation, asked authorizer.Attributes, verbs []string) (first error) {
	for _, verb := range verbs {
		asked.Verb = verb
		err := authorize(op, asked)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

func authorize(op *builtin.Operation, asked authorizer.Attributes) error {
	decision, reason, err := op.Env.Auth.Authorizer.Authorize(op.Context, &asked)
	switch {
	case decision == authorizer.DecisionAllow: // an error does not revoke the permission
		return nil
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return authorizer.Forbidden(&asked, reason)
}
