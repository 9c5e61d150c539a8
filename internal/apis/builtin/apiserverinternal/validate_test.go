package apiserverinternal

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

func TestVersionName(t *testing.T) {
	t.Parallel()
	for name, faulty := range map[string]bool{
		"apps.deployments": false, "rbac.authorization.k8s.io.roles": false, "deployments": true, ".deployments": true, "apps.": true, "apps.1": true,
	} {
		if problems := versionName(name, false); len(problems) > 0 != faulty {
			t.Errorf("name %s: problems %q, want a problem: %t", name, problems, faulty)
		}
	}
}

func TestValidateStatus(t *testing.T) {
	t.Parallel()
	server := func(id, encoding string, decodable ...string) apiserverinternalv1alpha1.ServerStorageVersion {
		return apiserverinternalv1alpha1.ServerStorageVersion{APIServerID: id, EncodingVersion: encoding, DecodableVersions: decodable, ServedVersions: decodable}
	}
	type servers = []apiserverinternalv1alpha1.ServerStorageVersion
	v1, v1beta1 := "apps/v1", "apps/v1beta1"
	for _, tt := range []struct {
		name    string
		servers servers
		common  *string
		want    []string
	}{
		{"nothing", nil, nil, nil},
		{"one server", servers{server("a", v1, v1)}, &v1, nil},
		{"servers that agree", servers{server("a", v1, v1), server("b", v1, v1, v1beta1)}, &v1, nil},
		{"servers that do not", servers{server("a", v1, v1), server("b", v1beta1, v1beta1)}, nil, nil},
		{"which is said to be common", servers{server("a", v1, v1), server("b", v1beta1, v1beta1)}, &v1, []string{"status.commonEncodingVersion"}},
		{"nothing said", servers{server("a", v1, v1)}, nil, []string{"status.commonEncodingVersion"}},
		{"another one said", servers{server("a", v1, v1)}, &v1beta1, []string{"status.commonEncodingVersion"}},
		{"a server twice", servers{server("a", v1, v1), server("a", v1, v1)}, &v1, []string{"status.storageVersions[1].apiServerID"}},
		{"what cannot be read back", servers{server("a", v1, v1beta1)}, &v1, []string{"status.storageVersions[0].decodableVersions"}},
	} {
		version := &apiserverinternalv1alpha1.StorageVersion{}
		version.Status.StorageVersions, version.Status.CommonEncodingVersion = tt.servers, tt.common
		faults := validation.NewValidator(feature.Defaults()).Validate(t.Context(), func(f validation.Field) { validateStatus(f, version, nil) })
		var got []string
		for _, fault := range faults {
			got = append(got, fault.Field)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s:\n%s%v", tt.name, diff, faults)
		}
	}
}

// TestErrorSize checks that the size of the errors for many served versions does not grow with the number of
// decodable versions.
func TestErrorSize(t *testing.T) {
	t.Parallel()
	decodable, served := make([]string, 100_000), make([]string, 100_000)
	for i := range decodable {
		decodable[i], served[i] = fmt.Sprintf("v%d", i), fmt.Sprintf("w%d", i)
	}
	version := &apiserverinternalv1alpha1.StorageVersion{}
	version.Status.CommonEncodingVersion = &decodable[0]
	version.Status.StorageVersions = []apiserverinternalv1alpha1.ServerStorageVersion{
		{APIServerID: "a", EncodingVersion: decodable[0], DecodableVersions: decodable, ServedVersions: served},
	}
	faults := validation.NewValidator(feature.Defaults()).Validate(t.Context(), func(f validation.Field) { validateStatus(f, version, nil) })
	size := 0
	for _, fault := range faults {
		size += len(fault.Error())
	}
	if len(faults) == 0 || size > 16<<20 {
		t.Errorf("%d errors have a total size of %d bytes, want at most 16 MiB", len(faults), size)
	}
}
