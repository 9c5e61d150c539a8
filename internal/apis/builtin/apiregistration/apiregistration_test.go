package apiregistration

import (
	"testing"

	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/feature"
)

func TestLocalIsAvailable(t *testing.T) {
	t.Parallel()
	local := &apiregistrationv1.APIService{}
	prepare(&builtin.Operation{Context: t.Context()}, local)
	if got := availableText(local); got != "True" {
		t.Errorf("a local APIService is available: %s", got)
	}
	remote := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Service: &apiregistrationv1.ServiceReference{}}}
	prepare(&builtin.Operation{Context: t.Context()}, remote)
	if got := availableText(remote); got != "Unknown" {
		t.Errorf("a remote APIService is available: %s", got)
	}
}

func TestName(t *testing.T) {
	t.Parallel()
	validator := validation.NewValidator(feature.Defaults())
	service := &apiregistrationv1.APIService{Spec: apiregistrationv1.APIServiceSpec{Group: "rich.example.com", Version: "v1"}}
	for name, want := range map[string]string{
		"v1.rich.example.com": "",
		"a/b":                 "metadata.name: Invalid value: \"a/b\": may not contain '/'",
		"a.b":                 "metadata.name: Invalid value: \"a.b\": must be `spec.version+\".\"+spec.group`: \"v1.rich.example.com\"",
	} {
		service.Name = name
		got := ""
		faults := validator.Validate(t.Context(), func(f validation.Field) { validateName(f, service) })
		if err := faults.ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
