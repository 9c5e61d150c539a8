package apiregistration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// Maximum priorities.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

// validateLocalVersion rejects an APIService that assigns a built-in group version to another server, because
// that server would then receive the requests for the group version. An APIService whose name does not match
// its group version is not rejected here, because it is invalid and has no effect.
func validateLocalVersion(op *builtin.Operation, f validation.Field, service, _ *apiregistrationv1.APIService) {
	gv := schema.GroupVersion{Group: service.Spec.Group, Version: service.Spec.Version}
	named := service.Name == gv.Version+"."+gv.Group
	if service.Spec.Service != nil && named && op.Env.ServesVersion != nil && op.Env.ServesVersion(gv) {
		f.Child("spec").Child("service").Forbidden("this server serves the group version itself")
	}
}

func validateAPIService(f validation.Field, service, _ *apiregistrationv1.APIService) {
	validateName(f, service)
	spec, at := &service.Spec, f.Child("spec")
	if spec.Group == "" && spec.Version != "v1" {
		at.Child("group").Required("only v1 may have an empty group and it better be legacy kube")
	}
	if spec.Group != "" {
		at.Child("group").DNSSubdomain(spec.Group)
	}
	at.Child("version").InvalidFor(spec.Version, utilvalidation.IsDNS1035Label(spec.Version))
	if p := spec.GroupPriorityMinimum; p <= 0 || p > maxGroupPriority {
		at.Child("groupPriorityMinimum").Invalid(p, "must be positive and less than 20000")
	}
	if p := spec.VersionPriority; p <= 0 || p > maxVersionPriority {
		at.Child("versionPriority").Invalid(p, "must be positive and less than 1000")
	}
	if spec.Service == nil {
		validateLocal(at, spec)
	} else {
		validateRemote(at, spec)
	}
}

// anyName accepts all names, because validateName validates them together with the version.
func anyName(string, bool) []string { return nil }

// validateName requires that the name is VERSION.GROUP, so that each group version has at most one APIService.
// Generated names are therefore invalid.
func validateName(f validation.Field, service *apiregistrationv1.APIService) {
	want := service.Spec.Version + "." + service.Spec.Group
	for _, name := range [...]struct{ field, value string }{{"generateName", service.GenerateName}, {"name", service.Name}} {
		at := f.Child("metadata").Child(name.field)
		if problems := path.IsValidPathSegmentName(name.value); len(problems) > 0 {
			at.InvalidFor(name.value, problems)
		} else if name.value != "" && name.value != want {
			at.Invalid(name.value, fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want))
		}
	}
}

// validateLocal rejects connection settings in an APIService without a service.
func validateLocal(f validation.Field, spec *apiregistrationv1.APIServiceSpec) {
	if len(spec.CABundle) > 0 {
		f.Child("caBundle").Invalid(fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle")
	}
	if spec.InsecureSkipTLSVerify {
		f.Child("insecureSkipTLSVerify").Invalid(true, "local APIServices may not have insecureSkipTLSVerify")
	}
}

func validateRemote(f validation.Field, spec *apiregistrationv1.APIServiceSpec) {
	service, at := spec.Service, f.Child("service")
	if service.Namespace == "" {
		at.Child("namespace").Required("")
	}
	if service.Name == "" {
		at.Child("name").Required("")
	}
	if service.Port != nil {
		if problems := utilvalidation.IsValidPortNum(int(*service.Port)); len(problems) > 0 {
			at.Child("port").Invalid(*service.Port, "port is not valid: "+strings.Join(problems, ", "))
		}
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		f.Child("insecureSkipTLSVerify").Invalid(true, "may not be true if caBundle is present")
	}
}

func validateStatus(f validation.Field, service, _ *apiregistrationv1.APIService) {
	conditions := f.Child("status").Child("conditions")
	for i := range service.Status.Conditions {
		validation.OneOf(conditions.Index(i).Child("status"), service.Status.Conditions[i].Status,
			apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown)
	}
}
