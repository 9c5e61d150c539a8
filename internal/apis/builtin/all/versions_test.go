package all_test

import (
	"reflect"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	admissionregistrationv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionregistrationv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
)

// TestSameVersions checks that versions without a conversion have the same JSON and protobuf encoding as the
// version of the group, except for apiVersion.
func TestSameVersions(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]any{
		{admissionregistrationv1.MutatingAdmissionPolicy{}, admissionregistrationv1beta1.MutatingAdmissionPolicy{}},
		{admissionregistrationv1.MutatingAdmissionPolicy{}, admissionregistrationv1alpha1.MutatingAdmissionPolicy{}},
		{admissionregistrationv1.MutatingAdmissionPolicyBinding{}, admissionregistrationv1beta1.MutatingAdmissionPolicyBinding{}},
		{admissionregistrationv1.MutatingAdmissionPolicyBinding{}, admissionregistrationv1alpha1.MutatingAdmissionPolicyBinding{}},
		{certificatesv1.ClusterTrustBundle{}, certificatesv1beta1.ClusterTrustBundle{}},
		{coordinationv1beta1.LeaseCandidate{}, coordinationv1alpha2.LeaseCandidate{}},
		{resourcev1.DeviceClass{}, resourcev1beta1.DeviceClass{}},
		{resourcev1.DeviceClass{}, resourcev1beta2.DeviceClass{}},
		{resourcev1.DeviceTaintRule{}, resourcev1alpha3.DeviceTaintRule{}},
		{resourcev1.DeviceTaintRule{}, resourcev1beta2.DeviceTaintRule{}},
		{resourcev1.ResourceClaim{}, resourcev1beta2.ResourceClaim{}},
		{resourcev1.ResourceClaimTemplate{}, resourcev1beta2.ResourceClaimTemplate{}},
		{resourcev1.ResourceSlice{}, resourcev1beta2.ResourceSlice{}},
		{schedulingv1beta1.PodGroup{}, schedulingv1alpha3.PodGroup{}},
		{schedulingv1beta1.Workload{}, schedulingv1alpha3.Workload{}},
		{storagemigrationv1.StorageVersionMigration{}, storagemigrationv1beta1.StorageVersionMigration{}},
	} {
		a, b := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		if at := difference(a, b, map[reflect.Type]bool{}); at != "" {
			t.Errorf("%s of %s and %s differ at %s", a.Name(), a.PkgPath(), b.PkgPath(), at)
		}
	}
}

// difference returns the path of the first difference between the fields of two types, or "" if they do not
// differ.
func difference(a, b reflect.Type, seen map[reflect.Type]bool) string {
	switch {
	case a == b || seen[a]:
		return ""
	case a.Kind() != b.Kind():
		return "."
	}
	seen[a] = true
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return difference(a.Elem(), b.Elem(), seen)
	case reflect.Struct:
		if a.NumField() != b.NumField() {
			return "."
		}
		for i := range a.NumField() {
			f, g := a.Field(i), b.Field(i)
			if f.Name != g.Name || f.Tag != g.Tag {
				return "." + f.Name
			}
			if at := difference(f.Type, g.Type, seen); at != "" {
				return "." + f.Name + at
			}
		}
	}
	return ""
}
