package webhook

import (
	"fmt"
	"net/url"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateURL validates the URL of a webhook. The URL must use https, must have a host, and must
// not have user information, a query or a fragment. The messages are kube-apiserver's.
func ValidateURL(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// ValidateService validates the service of a webhook. A nil path is valid. As in kube-apiserver,
// the two fields are confused: a missing name is reported as a missing namespace, and vice versa.
func ValidateService(name, namespace string, path *string, port int32, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if namespace == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if name == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if faults := utilvalidation.IsValidPortNum(int(port)); len(faults) > 0 {
		errs = append(errs, field.Invalid(at.Child("port"), port, "port is not valid: "+strings.Join(faults, ", ")))
	}
	if path != nil {
		errs = append(errs, validatePath(*path, at.Child("path"))...)
	}
	return errs
}

// validatePath validates the path of a service webhook. Each segment must be a DNS-1123 subdomain.
func validatePath(path string, at *field.Path) field.ErrorList {
	if path == "" || path == "/" {
		return nil
	}
	if path == "//" {
		return field.ErrorList{field.Invalid(at, path, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(path, "/") {
		errs = append(errs, field.Invalid(at, path, "must start with a '/'"))
	}
	// As in kube-apiserver, the first byte is not checked.
	i := 0
	for segment := range strings.SplitSeq(strings.TrimSuffix(path[1:], "/"), "/") {
		if segment == "" {
			errs = append(errs, field.Invalid(at, path, fmt.Sprintf("segment[%d] may not be empty", i)))
		} else {
			for _, fault := range utilvalidation.IsDNS1123Subdomain(segment) {
				errs = append(errs, field.Invalid(at, path, fmt.Sprintf("segment[%d]: %v", i, fault)))
			}
		}
		i++
	}
	return errs
}
