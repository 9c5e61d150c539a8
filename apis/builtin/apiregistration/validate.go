package apiregistration

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Limits of priorities.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

func validateAPIService(_ context.Context, service *apiregistrationv1.APIService) field.ErrorList {
	errs := validateName(service)
	spec, path := &service.Spec, field.NewPath("spec")
	if spec.Group == "" && spec.Version != "v1" {
		errs = append(errs, field.Required(path.Child("group"), "only v1 may have an empty group and it better be legacy kube"))
	}
	if spec.Group != "" {
		for _, fault := range validation.IsDNS1123Subdomain(spec.Group) {
			errs = append(errs, field.Invalid(path.Child("group"), spec.Group, fault))
		}
	}
	for _, fault := range validation.IsDNS1035Label(spec.Version) {
		errs = append(errs, field.Invalid(path.Child("version"), spec.Version, fault))
	}
	if p := spec.GroupPriorityMinimum; p <= 0 || p > maxGroupPriority {
		errs = append(errs, field.Invalid(path.Child("groupPriorityMinimum"), p, "must be positive and less than 20000"))
	}
	if p := spec.VersionPriority; p <= 0 || p > maxVersionPriority {
		errs = append(errs, field.Invalid(path.Child("versionPriority"), p, "must be positive and less than 1000"))
	}
	if spec.Service == nil {
		return append(errs, validateLocal(spec, path)...)
	}
	return append(errs, validateRemote(spec, path)...)
}

// validateLocal: what this server answers for itself needs no trust.
func validateLocal(spec *apiregistrationv1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(path.Child("caBundle"), fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle"))
	}
	if spec.InsecureSkipTLSVerify {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "local APIServices may not have insecureSkipTLSVerify"))
	}
	return errs
}

func validateRemote(spec *apiregistrationv1.APIServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	service, at := spec.Service, path.Child("service")
	if service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if service.Port != nil {
		if faults := validation.IsValidPortNum(int(*service.Port)); len(faults) > 0 {
			errs = append(errs, field.Invalid(at.Child("port"), *service.Port, "port is not valid: "+strings.Join(faults, ", ")))
		}
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(path.Child("insecureSkipTLSVerify"), true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateUpdate(ctx context.Context, service, _ *apiregistrationv1.APIService) field.ErrorList {
	return validateAPIService(ctx, service)
}

func validateStatus(_ context.Context, service, _ *apiregistrationv1.APIService) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "conditions")
	for i := range service.Status.Conditions {
		switch status := service.Status.Conditions[i].Status; status {
		case apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown:
		default:
			errs = append(errs, field.NotSupported(path.Index(i).Child("status"), status, []apiregistrationv1.ConditionStatus{
				apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown,
			}))
		}
	}
	return errs
}
