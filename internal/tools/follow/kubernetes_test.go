package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// current reads the Kubernetes modules that go.mod requires.
func current(t *testing.T) release {
	t.Helper()
	r := release{}
	for _, s := range sources() {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", s.module).Output()
		dir := strings.TrimSpace(string(out))
		if err != nil || dir == "" {
			continue // go.mod does not require the module
		}
		if err := r.addModule(os.DirFS(dir), s); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestCurrentVersion checks that the declarations in the required version of Kubernetes agree with the tables
// of this project.
func TestCurrentVersion(t *testing.T) {
	t.Parallel()
	r := current(t)
	for name, path := range map[string]string{
		"apps/v1.DeploymentSpec.replicas":                            "Deployment.spec.replicas",
		"resource.k8s.io/v1.Device.attributes":                       "ResourceSlice.spec.devices[].attributes",
		"v1.ConfigMap.data":                                          "ConfigMap.data",
		"meta.k8s.io/v1.ObjectMeta.labels":                           "PartialObjectMetadata.metadata.labels",
		"apiextensions.k8s.io/v1.CustomResourceDefinitionSpec.group": "CustomResourceDefinition.spec.group",
		"apiregistration.k8s.io/v1.APIServiceSpec.service":           "APIService.spec.service",
	} {
		if d, ok := r[key{field, name}]; !ok || d.Path != path {
			t.Errorf("%s has the path %q, want %q", name, d.Path, path)
		}
	}
	p, err := readProject(os.DirFS("../../.."), oldVersion)
	if err != nil {
		t.Fatal(err)
	}
	gates := 0
	for k, d := range r {
		if k.Category != gate {
			continue
		}
		gates++
		row := p.gates[k.Name]
		if row == nil || row[1] != d.Attributes["default"] || row[2] != d.Attributes["stage"] {
			t.Errorf("%s has the row %q for %s: %v", gatesFile, row, k.Name, d.Attributes)
		}
	}
	if gates == 0 {
		t.Error("the modules have no gates")
	}
}
