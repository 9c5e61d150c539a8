package resource

import (
	"reflect"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
)

// defaultThrough returns a function that sets defaults in a v1beta1 object by converting it to v1 and back. The
// conversion functions must not fail.
func defaultThrough[Old, Hub any](defaults func(*Hub), from func(*Old) (*Hub, error), to func(*Hub) (*Old, error)) func(*Old) {
	return func(obj *Old) {
		hub, _ := from(obj)
		defaults(hub)
		defaulted, _ := to(hub)
		*obj = *defaulted
	}
}

// claimV1beta1, claimTemplateV1beta1 and sliceV1beta1 return the v1beta1 versions of claims, claim templates
// and slices. v1beta1 has the fields of requests[].exactly directly in the request, and the fields of a device
// in its field basic.
func claimV1beta1() *codec.Version {
	gvk := resourcev1beta1.SchemeGroupVersion.WithKind("ResourceClaim")
	return builtin.ConvertedVersion(gvk, defaultThrough(defaultClaim, claimFromV1beta1, claimToV1beta1), claimFromV1beta1, claimToV1beta1)
}

func claimFromV1beta1(in *resourcev1beta1.ResourceClaim) (*resourcev1.ResourceClaim, error) {
	out := &resourcev1.ResourceClaim{}
	builtin.CopyMatchingFields(out, in)
	requestsFromV1beta1(out.Spec.Devices.Requests, in.Spec.Devices.Requests)
	return out, nil
}

func claimToV1beta1(in *resourcev1.ResourceClaim) (*resourcev1beta1.ResourceClaim, error) {
	out := &resourcev1beta1.ResourceClaim{}
	builtin.CopyMatchingFields(out, in)
	requestsToV1beta1(out.Spec.Devices.Requests, in.Spec.Devices.Requests)
	return out, nil
}

func claimTemplateV1beta1() *codec.Version {
	gvk := resourcev1beta1.SchemeGroupVersion.WithKind("ResourceClaimTemplate")
	return builtin.ConvertedVersion(gvk, defaultThrough(defaultClaimTemplate, claimTemplateFromV1beta1, claimTemplateToV1beta1), claimTemplateFromV1beta1, claimTemplateToV1beta1)
}

func claimTemplateFromV1beta1(in *resourcev1beta1.ResourceClaimTemplate) (*resourcev1.ResourceClaimTemplate, error) {
	out := &resourcev1.ResourceClaimTemplate{}
	builtin.CopyMatchingFields(out, in)
	requestsFromV1beta1(out.Spec.Spec.Devices.Requests, in.Spec.Spec.Devices.Requests)
	return out, nil
}

func claimTemplateToV1beta1(in *resourcev1.ResourceClaimTemplate) (*resourcev1beta1.ResourceClaimTemplate, error) {
	out := &resourcev1beta1.ResourceClaimTemplate{}
	builtin.CopyMatchingFields(out, in)
	requestsToV1beta1(out.Spec.Spec.Devices.Requests, in.Spec.Spec.Devices.Requests)
	return out, nil
}

// requestsFromV1beta1 sets requests[].exactly from the fields of the request. For a request with alternatives,
// exactly stays nil if all these fields are empty.
func requestsFromV1beta1(out []resourcev1.DeviceRequest, in []resourcev1beta1.DeviceRequest) {
	for i := range in {
		exactly := &resourcev1.ExactDeviceRequest{}
		builtin.CopyMatchingFields(exactly, &in[i])
		if len(in[i].FirstAvailable) == 0 || !reflect.ValueOf(exactly).Elem().IsZero() {
			out[i].Exactly = exactly
		}
	}
}

func requestsToV1beta1(out []resourcev1beta1.DeviceRequest, in []resourcev1.DeviceRequest) {
	for i := range in {
		if exactly := in[i].Exactly; exactly != nil {
			builtin.CopyMatchingFields(&out[i], exactly)
		}
	}
}

func sliceV1beta1() *codec.Version {
	gvk := resourcev1beta1.SchemeGroupVersion.WithKind("ResourceSlice")
	return builtin.ConvertedVersion(gvk, defaultThrough(defaultSlice, sliceFromV1beta1, sliceToV1beta1), sliceFromV1beta1, sliceToV1beta1)
}

func sliceFromV1beta1(in *resourcev1beta1.ResourceSlice) (*resourcev1.ResourceSlice, error) {
	out := &resourcev1.ResourceSlice{}
	builtin.CopyMatchingFields(out, in)
	if in.Spec.NodeName != "" {
		out.Spec.NodeName = &in.Spec.NodeName
	}
	if in.Spec.AllNodes {
		out.Spec.AllNodes = &in.Spec.AllNodes
	}
	for i := range in.Spec.Devices {
		if basic := in.Spec.Devices[i].Basic; basic != nil {
			builtin.CopyMatchingFields(&out.Spec.Devices[i], basic)
		}
	}
	return out, nil
}

func sliceToV1beta1(in *resourcev1.ResourceSlice) (*resourcev1beta1.ResourceSlice, error) {
	out := &resourcev1beta1.ResourceSlice{}
	builtin.CopyMatchingFields(out, in)
	if in.Spec.NodeName != nil {
		out.Spec.NodeName = *in.Spec.NodeName
	}
	if in.Spec.AllNodes != nil {
		out.Spec.AllNodes = *in.Spec.AllNodes
	}
	for i := range in.Spec.Devices {
		out.Spec.Devices[i].Basic = &resourcev1beta1.BasicDevice{}
		builtin.CopyMatchingFields(out.Spec.Devices[i].Basic, &in.Spec.Devices[i])
	}
	return out, nil
}
