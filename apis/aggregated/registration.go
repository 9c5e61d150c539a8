package aggregated

import (
	"bytes"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/egress"
)

// registration is a group version that another server answers for. It is
// immutable.
type registration struct {
	gv       schema.GroupVersion
	name     string
	uid      types.UID
	revision int64
	priority Priority
	server   *server
	// available is what the APIService says; checked tells that this server
	// has looked since it started.
	available bool
	// resources is what discovery shows; never nil.
	resources *apidiscovery.APIVersionDiscovery
}

// address is what tells servers apart: registrations of the same one share its
// connections.
type address struct {
	service  egress.Service
	insecure bool
	ca       string
}

// defaultPort is where servers are whose port is not said.
const defaultPort = 443

// addressOf returns where the server of an APIService is.
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

// nameOf is the name of the APIService of a group version.
func nameOf(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// groupVersionOf is the group version that an APIService of that name is of.
func groupVersionOf(name string) schema.GroupVersion {
	version, group, _ := strings.Cut(name, ".")
	return schema.GroupVersion{Group: group, Version: version}
}

// path is where a group version is found on every server.
func path(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api/" + gv.Version
	}
	return "/apis/" + gv.Group + "/" + gv.Version
}

// isAvailable reads the condition Available.
func isAvailable(service *apiregistrationv1.APIService) bool {
	condition := available(service)
	return condition != nil && condition.Status == apiregistrationv1.ConditionTrue
}

func available(service *apiregistrationv1.APIService) *apiregistrationv1.APIServiceCondition {
	for i := range service.Status.Conditions {
		if c := &service.Status.Conditions[i]; c.Type == apiregistrationv1.Available {
			return c
		}
	}
	return nil
}

// unknownResources is what discovery shows of a group version whose server has
// not been heard yet.
func unknownResources(gv schema.GroupVersion) *apidiscovery.APIVersionDiscovery {
	return &apidiscovery.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscovery.DiscoveryFreshnessStale}
}
