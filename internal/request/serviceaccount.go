package request

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
)

// User names, groups and extra fields of service accounts.
const (
	// ServiceAccountPrefix is the prefix of the user names of service accounts.
	ServiceAccountPrefix = "system:serviceaccount:"
	// GroupServiceAccounts is the group of all service accounts. The service accounts of a namespace
	// are also in the group GroupServiceAccounts + ":" + namespace.
	GroupServiceAccounts = "system:serviceaccounts"

	// ExtraCredentialID is the key of the extra field that identifies the credential.
	ExtraCredentialID = "authentication.kubernetes.io/credential-id"
	// The following keys identify the objects to which a service account token is bound.
	ExtraPodName  = "authentication.kubernetes.io/pod-name"
	ExtraPodUID   = "authentication.kubernetes.io/pod-uid"
	ExtraNodeName = "authentication.kubernetes.io/node-name"
	ExtraNodeUID  = "authentication.kubernetes.io/node-uid"
)

// ServiceAccountUser returns the user name of a service account.
func ServiceAccountUser(namespace, name string) string {
	return ServiceAccountPrefix + namespace + ":" + name
}

// ServiceAccountGroups returns the groups to which every service account of a namespace belongs.
// The caller owns the slice.
func ServiceAccountGroups(namespace string) []string {
	return []string{GroupServiceAccounts, GroupServiceAccounts + ":" + namespace}
}

// ServiceAccountOf returns the namespace and name of the service account with a user name. ok is false if the
// user is not a service account.
func ServiceAccountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, ServiceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok || len(validation.ValidateNamespaceName(namespace, false)) > 0 || len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return "", "", false
	}
	return namespace, name, true
}
