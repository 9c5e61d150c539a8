package apiserverinternal

import (
	"fmt"
	"strings"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	"k8s.io/apimachinery/pkg/util/sets"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

// versionName requires that a name has the form GROUP.RESOURCE, such as apps.deployments.
func versionName(name string, _ bool) []string {
	at := strings.LastIndex(name, ".")
	if at < 0 {
		return []string{"name must be in the form of <group>.<resource>"}
	}
	return append(prefixed("the group segment ", apivalidation.IsDNS1123Subdomain(name[:at])),
		prefixed("the resource segment ", apivalidation.IsDNS1035Label(name[at+1:]))...)
}

func prefixed(prefix string, problems []string) []string {
	for i := range problems {
		problems[i] = prefix + problems[i]
	}
	return problems
}

func validateStatus(f validation.Field, version, _ *apiserverinternalv1alpha1.StorageVersion) {
	status, f := &version.Status, f.Child("status")
	servers := validation.NewDuplicates[string](len(status.StorageVersions))
	for i := range status.StorageVersions {
		server, at := &status.StorageVersions[i], f.Child("storageVersions").Index(i)
		if servers.IsDuplicate(server.APIServerID) {
			at.Child("apiServerID").Duplicate(server.APIServerID)
			continue
		}
		validateServer(at, server)
	}
	validateCommonVersion(f.Child("commonEncodingVersion"), status)
	validateConditions(f, status.Conditions)
}

func validateServer(f validation.Field, server *apiserverinternalv1alpha1.ServerStorageVersion) {
	f.Child("apiServerID").DNSSubdomain(server.APIServerID)
	validateAPIVersion(f.Child("encodingVersion"), server.EncodingVersion)
	for i, version := range server.DecodableVersions {
		validateAPIVersion(f.Child("decodableVersions").Index(i), version)
	}
	decodable := sets.New(server.DecodableVersions...)
	if !decodable.Has(server.EncodingVersion) {
		f.Child("decodableVersions").Invalid(server.DecodableVersions, "decodableVersions must include encodingVersion "+server.EncodingVersion)
	}
	shown := "" // the decodable versions as quoted in errors
	for i, version := range server.ServedVersions {
		at := f.Child("servedVersions").Index(i)
		validateAPIVersion(at, version)
		if decodable.Has(version) {
			continue
		}
		if shown == "" {
			shown = shortened(fmt.Sprint(server.DecodableVersions))
		}
		at.Invalid(version, fmt.Sprintf("individual served version : %s must be included in decodableVersions : %s", version, shown))
	}
}

// maxShown is the maximum length of a list of versions in an error message, in bytes. It is limited because
// there can be many errors and each contains the list.
const maxShown = 4096

func shortened(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return text[:maxShown] + "..."
}

// validateCommonVersion requires that the common encoding version in the status matches the encoding versions
// of all servers.
func validateCommonVersion(f validation.Field, status *apiserverinternalv1alpha1.StorageVersionStatus) {
	actual, common := CommonEncodingVersion(status.StorageVersions), status.CommonEncodingVersion
	switch {
	case actual == nil && common != nil:
		f.Invalid(*common, "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet")
	case actual == nil:
	case common == nil:
		f.Invalid(nil, "the common encoding version is "+*actual)
	case *common != *actual:
		f.Invalid(*common, "the actual common encoding version is "+*actual)
	}
}

// CommonEncodingVersion returns the encoding version that all servers use. It returns nil if there are no
// servers or if their versions differ.
func CommonEncodingVersion(servers []apiserverinternalv1alpha1.ServerStorageVersion) *string {
	for i := range servers {
		if servers[i].EncodingVersion != servers[0].EncodingVersion {
			return nil
		}
	}
	if len(servers) == 0 {
		return nil
	}
	return new(servers[0].EncodingVersion)
}

// validateConditions validates conditions. f is the status: as in kube-apiserver, error paths lack "conditions".
func validateConditions(f validation.Field, conditions []apiserverinternalv1alpha1.StorageVersionCondition) {
	first := map[apiserverinternalv1alpha1.StorageVersionConditionType]int{}
	for i := range conditions {
		c, at := &conditions[i], f.Index(i)
		if earlier, again := first[c.Type]; again {
			at.Child("type").Invalid(c.Type, fmt.Sprintf("the type of the condition is not unique, it also appears in conditions[%d]", earlier))
		} else {
			first[c.Type] = i
		}
		at.Child("type").QualifiedName(string(c.Type))
		at.Child("status").QualifiedName(string(c.Status))
		if c.Reason == "" {
			at.Child("reason").Required("")
		}
		if c.Message == "" {
			at.Child("message").Required("")
		}
	}
}

// validateAPIVersion requires the form VERSION or GROUP/VERSION.
func validateAPIVersion(f validation.Field, text string) {
	group, version, grouped := strings.Cut(text, "/")
	switch {
	case !grouped:
		version = group
	case strings.Contains(version, "/"):
		f.Invalid(text, "an apiVersion is a DNS-1035 label for the version, with an optional DNS subdomain for the group and a slash before it")
		return
	case group == "":
		f.Invalid(text, "group part: must be non-empty")
	default:
		f.InvalidFor(text, prefixed("group part: ", apivalidation.IsDNS1123Subdomain(group)))
	}
	if version == "" {
		f.Invalid(text, "version part: must be non-empty")
		return
	}
	f.InvalidFor(text, prefixed("version part: ", apivalidation.IsDNS1035Label(version)))
}
