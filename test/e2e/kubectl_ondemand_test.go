package e2e

import (
	"strings"
	"testing"

	"mainstay.dev/mainstay/test/testserver"
)

const leaseCandidate = `{"apiVersion":"coordination.k8s.io/v1alpha2","kind":"LeaseCandidate","metadata":{"name":"c"},
"spec":{"leaseName":"l","binaryVersion":"1.37.0","emulationVersion":"1.37.0","strategy":"OldestEmulationVersion"}}`

const taintRule = `{"apiVersion":"resource.k8s.io/v1alpha3","kind":"DeviceTaintRule","metadata":{"name":"broken"},
"spec":{"deviceSelector":{"driver":"gpu.example.com"},"taint":{"key":"example.com/broken","effect":"NoSchedule"}}}`

// TestKubectlOnDemand uses kubectl with API versions that are disabled by default.
func TestKubectlOnDemand(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: []string{"--runtime-config=api/all=true", "--feature-gates=AllAlpha=true,AllBeta=true"}})
	k := newKubectl(t, srv, t.TempDir())
	k.printsAll(args("api-versions"), "coordination.k8s.io/v1beta1\n", "internal.apiserver.k8s.io/v1alpha1\n", "resource.k8s.io/v1beta1\n", "scheduling.k8s.io/v1alpha3\n")
	k.printsAll(args("explain leasecandidates"), "GROUP:      coordination.k8s.io", "VERSION:    v1beta1")
	k.printsAll(args("explain resourceclaims.spec.devices.requests.deviceClassName --api-version=resource.k8s.io/v1beta1"), "FIELD: deviceClassName <string>")

	k.okWith(leaseCandidate, "create", "-f", "-")
	k.printsAll(args("get leasecandidates"), "NAME   LEASENAME   BINARYVERSION   EMULATIONVERSION   AGE", "c      l           1.37.0")
	k.okWith(strings.ReplaceAll(leaseCandidate, "1.37.0", "1.38.0"), "apply", "-f", "-", "--server-side", "--force-conflicts")
	k.prints("1.38.0", "get", "leasecandidates.v1beta1.coordination.k8s.io", "c", "-o", "jsonpath={.spec.binaryVersion}")
	k.ok(args("delete leasecandidates c")...)

	// The object can be read in all versions.
	k.okWith(taintRule, "create", "-f", "-")
	for _, version := range []string{"v1alpha3", "v1beta2", "v1"} {
		k.prints("resource.k8s.io/"+version, "get", "devicetaintrules."+version+".resource.k8s.io", "broken", "-o", "jsonpath={.apiVersion}")
	}
}

// TestKubectlWithoutBetas checks that kubectl finds no beta versions if they are disabled.
func TestKubectlWithoutBetas(t *testing.T) {
	t.Parallel()
	srv := testserver.New(t, testserver.Options{Flags: []string{"--runtime-config=api/beta=false"}})
	k := newKubectl(t, srv, t.TempDir())
	if out := k.ok("api-versions"); strings.Contains(out, "beta") || strings.Contains(out, "alpha") {
		t.Errorf("api-versions contains beta or alpha versions:\n%s", out)
	}
	k.fails(1, `the server doesn't have a resource type "leasecandidates"`, "get", "leasecandidates")
	k.failsWith(taintRule, 1, `no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1alpha3"`, "create", "-f", "-")
}
