package aggregated

import (
	"bytes"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/egress"
)

// registration is an APIService that refers to the Service of an aggregated server. It is immutable.
type registration struct {
	gv        schema.GroupVersion
	name      string
	uid       types.UID
	revision  int64
	priority  Priority
	server    *server
	available bool // whether the Available condition is true
	// resources is the discovery of the group version. It is never nil.
	resources *apidiscovery.APIVersionDiscovery
}

// address identifies an aggregated server. Registrations with equal addresses share a server and its
// connections.
type address struct {
	service  egress.Service
	insecure bool
	ca       string
}

// defaultPort is the port of the Service if the APIService specifies none.
const defaultPort = 443

// addressOf returns the address of the server of an APIService.
func addressOf(spec *apiregistrationv1.APIServiceSpec) address {
	port := int32(defaultPort)
	if spec.Service.Port != nil {
		port = *spec.Service.Port
	}
	return address{
		service:  egress.Service{Namespace: strings.Clone(spec.Service.Namespace), Name: strings.Clone(spec.Service.Name), Port: port},
		insecure: spec.InsecureSkipTLSVerify,
		ca:       string(bytes.TrimSpace(spec.CABundle)),
	}
}

// nameOf returns the name of the APIService of a group version.
func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// groupVersionOf returns the group version of the APIService with the given name.
func groupVersionOf(name string) schema.GroupVersion {
	version, group, _ := strings.Cut(name, ".")
	return schema.GroupVersion{Group: group, Version: version}
}

// path returns the URL path of a group version.
func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// isAvailable reports whether the Available condition is true.
func isAvailable(service *apiregistrationv1.APIService) bool {
	condition := availableCondition(service)
	return condition != nil && condition.Status == apiregistrationv1.ConditionTrue
}

func availableCondition(service *apiregistrationv1.APIService) *apiregistrationv1.APIServiceCondition {
	for i := range service.Status.Conditions {
		if c := &service.Status.Conditions[i]; c.Type == apiregistrationv1.Available {
			return c
		}
	}
	return nil
}

// unknownResources returns the discovery of a group version before the first fetch.
func unknownResources(gv schema.GroupVersion) *apidiscovery.APIVersionDiscovery {
	return &apidiscovery.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscovery.DiscoveryFreshnessStale}
}
