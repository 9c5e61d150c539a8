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

// verdict is what was found out of the availability of a registration: the
// condition without its type and time.
type verdict struct {
	status          apiregistrationv1.ConditionStatus
	reason, message string
}

func (v verdict) passed() bool { return v.status == apiregistrationv1.ConditionTrue }

func unavailable(reason, format string, args ...any) verdict {
	return verdict{apiregistrationv1.ConditionFalse, reason, fmt.Sprintf(format, args...)}
}

func unknown(reason, format string, args ...any) verdict {
	return verdict{apiregistrationv1.ConditionUnknown, reason, fmt.Sprintf(format, args...)}
}

// judge finds out whether the server of a registration can be reached: by what
// the cluster says of its service first, and then by asking.
func (s *Source) judge(ctx context.Context, r *registration) verdict {
	at := r.server.address.service
	service, err := s.config.Cluster.Service(ctx, at.Namespace, at.Name)
	switch {
	case apierrors.IsNotFound(err):
		return unavailable("ServiceNotFound", "service/%s in %q is not present", at.Name, at.Namespace)
	case err != nil:
		return unknown("ServiceAccessError", "service/%s in %q cannot be checked due to: %v", at.Name, at.Namespace, err)
	}
	if service.Spec.Type == corev1.ServiceTypeClusterIP {
		if fault, found := s.judgeService(ctx, service, at.Port); found {
			return fault
		}
	}
	if err := r.server.answers(ctx, path(r.gv)); err != nil {
		return unavailable("FailedDiscoveryCheck", "failing or missing response from %s: %v", r.server.base.String()+path(r.gv), err)
	}
	return verdict{apiregistrationv1.ConditionTrue, "Passed", "all checks passed"}
}

// judgeService looks at a service of the cluster's network, and at what is
// behind it; found tells that something is missing.
func (s *Source) judgeService(ctx context.Context, service *corev1.Service, port int32) (fault verdict, found bool) {
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
		return s.judgeEndpoints(ctx, service, name)
	}
	if !slices.ContainsFunc(endpoints, func(e *discoveryv1.EndpointSlice) bool { return hasReady(e, name) }) {
		return unavailable("MissingEndpoints", "endpointslices for service/%s in %q have no addresses with port name %q", service.Name, service.Namespace, name), true
	}
	return verdict{}, false
}

// judgeEndpoints looks at what was before EndpointSlices.
func (s *Source) judgeEndpoints(ctx context.Context, service *corev1.Service, port string) (fault verdict, found bool) {
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
	return verdict{}, false
}

func hasReady(slice *discoveryv1.EndpointSlice, port string) bool {
	return slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }) &&
		slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
		})
}

const (
	// attempts are how often a server is asked, by different connections where
	// it has several endpoints, before it is given up.
	attempts = 5
	// hedge is how long an attempt is waited for before others are made.
	hedge = time.Second
)

// errSlow stands for an attempt that takes long.
var errSlow = errors.New("no answer yet")

// answers asks a server for a path until it answers once. The first attempt is
// alone; others follow side by side when it fails, or takes long.
func (s *server) answers(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	results := make(chan error, attempts)
	attempt := func() { // ends with ctx
		_, err := s.ask(ctx, path, "application/json", "")
		results <- err
	}
	go attempt()
	more := time.NewTimer(hedge)
	defer more.Stop()
	var last error
	for asked, answered := 1, 0; ; {
		var err error
		select {
		case err = <-results:
			answered++
		case <-more.C:
			err = errSlow
		}
		if err == nil {
			return nil
		}
		if err != errSlow {
			last = err
		}
		for ; asked < attempts; asked++ {
			go attempt()
		}
		if answered == attempts {
			return last
		}
	}
}
