package aggregated

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// availability is the result of a check. It contains the fields of the Available condition, except the
// transition time.
type availability struct {
	status          apiregistrationv1.ConditionStatus
	reason, message string
}

func (v availability) passed() bool { return v.status == apiregistrationv1.ConditionTrue }

func unavailable(reason, format string, args ...any) availability {
	return availability{apiregistrationv1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(reason, format string, args ...any) availability {
	return availability{apiregistrationv1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// checkAvailability checks that the Service of a registration has ready endpoints, and that the server responds
// to a request. The reasons and messages are the same as in kube-apiserver.
func (s *Source) checkAvailability(ctx context.Context, r *registration) availability {
	at := r.server.address.service
	service, err := s.config.Cluster.Service(ctx, at.Namespace, at.Name)
	switch {
	case apierrors.IsNotFound(err):
		return unavailable("ServiceNotFound", "service/%s in %q is not present", at.Name, at.Namespace)
	case err != nil:
		return unknown("ServiceAccessError", "service/%s in %q cannot be checked due to: %v", at.Name, at.Namespace, err)
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		if fault, found := s.checkService(ctx, service, at.Port); found {
			return fault
		}
	}
	if err := r.server.probe(ctx, path(r.gv)); err != nil {
		return unavailable("FailedDiscoveryCheck", "failing or missing response from %s: %v", r.server.base.String()+path(r.gv), err)
	}
	return availability{apiregistrationv1.ConditionTrue, "Passed", "all checks passed"}
}

// checkService checks the port and the endpoints of a Service. found reports whether there is a
// fault.
func (s *Source) checkService(ctx context.Context, service *corev1.Service, port int32) (fault availability, found bool) {
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return unavailable("ServicePortError", "service/%s in %q is not listening on port %d", service.Name, service.Namespace, port), true
	}
	name := service.Spec.Ports[i].Name
	endpoints, err := s.config.Cluster.EndpointSlices(ctx, service.Namespace, service.Name)
	if err != nil {
		return unknown("EndpointsAccessError", "service/%s in %q cannot be checked due to: %v", service.Name, service.Namespace, err), true
	}
	if len(endpoints) == 0 {
		return s.checkEndpoints(ctx, service, name)
	}
	if !slices.ContainsFunc(endpoints, func(e *discoveryv1.EndpointSlice) bool { return hasReadyEndpoint(e, name) }) {
		return unavailable("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", service.Name, service.Namespace, name), true
	}
	return availability{}, false
}

// checkEndpoints checks the Endpoints of a Service without EndpointSlices. Its results have the same meaning as
// those of checkService.
func (s *Source) checkEndpoints(ctx context.Context, service *corev1.Service, port string) (fault availability, found bool) {
	endpoints, err := s.config.Cluster.Endpoints(ctx, service.Namespace, service.Name)
	switch {
	case apierrors.IsNotFound(err):
		return unavailable("EndpointsNotFound", "cannot find endpointslices for service/%s in %q", service.Name, service.Namespace), true
	case err != nil:
		return unknown("EndpointsAccessError", "service/%s in %q cannot be checked due to: %v", service.Name, service.Namespace, err), true
	}
	ready := slices.ContainsFunc(endpoints.Subsets, func(subset corev1.EndpointSubset) bool {
		return len(subset.Addresses) > 0 && slices.ContainsFunc(subset.Ports, func(p corev1.EndpointPort) bool { return p.Name == port })
	})
	if !ready {
		return unavailable("MissingEndpoints", "endpoints for service/%s in %q have no addresses with port name %q", service.Name, service.Namespace, port), true
	}
	return availability{}, false
}

// hasReadyEndpoint reports whether a slice has a ready endpoint and a port with the given name.
func hasReadyEndpoint(slice *discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }) &&
		slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
		})
}

const (
	// maxAttempts is the maximum number of requests that a probe sends. Each new connection may reach a
	// different endpoint of the Service.
	maxAttempts = 5
	// hedgeDelay is the time after which the other attempts start, if the first one has not
	// finished.
	hedgeDelay = time.Second
)

// errSlowAttempt reports that the first attempt takes longer than hedgeDelay.
var errSlowAttempt = errors.New("no response yet")

// probe sends up to maxAttempts requests for a path until one succeeds. If the first request fails or takes
// longer than hedgeDelay, probe sends all other requests concurrently. If all requests fail, probe returns the
// last error.
func (s *server) probe(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	results := make(chan error, maxAttempts)
	attempt := func() { // ends with ctx
		_, err := s.fetch(ctx, path, "application/json", "")
		results <- err
	}
	go attempt()
	more := time.NewTimer(hedgeDelay)
	defer more.Stop()
	var last error
	for started, finished := 1, 0; ; {
		var err error
		select {
		case err = <-results:
			finished++
		case <-more.C:
			err = errSlowAttempt
		}
		if err == nil {
			return nil
		}
		if err != errSlowAttempt {
			last = err
		}
		for ; started < maxAttempts; started++ {
			go attempt()
		}
		if finished == maxAttempts {
			return last
		}
	}
}
