package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/request"
)

const (
	fetchTimeout = 10 * time.Second
	// maxDiscovery is the maximum size of a discovery document, in bytes.
	maxDiscovery = 64 << 20
	// ownDiscovery is the Accept header that requests the discovery of a server without the resources of its
	// peers.
	ownDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer," +
		"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// fetchPeer fetches the address and the discovery of another server. The result does not contain shared group
// versions.
func (s *Source) fetchPeer(ctx context.Context, id string) (*peer, error) {
	address, err := s.config.Address(ctx, id)
	if err != nil {
		s.config.Metrics.syncFailed(syncAddress)
		return nil, err
	}
	if address == "" {
		s.config.Metrics.syncFailed(syncAddress)
		return nil, errNoAddress(id)
	}
	p := &peer{address: address, resources: map[schema.GroupVersionResource]bool{}}
	for _, path := range []string{"/api", "/apis"} {
		groups, err := s.discovery(ctx, address, path)
		if err != nil {
			s.config.Metrics.syncFailed(syncFetch)
			return nil, fmt.Errorf("get %s of %s: %w", path, address, err)
		}
		p.add(withoutVersions(groups, s.config.Shared))
	}
	return p, nil
}

// add adds the resources in groups. It adds the groups too, except for the core group.
func (p *peer) add(groups []apidiscovery.APIGroupDiscovery) {
	for _, group := range groups {
		for _, version := range group.Versions {
			for _, resource := range version.Resources {
				p.resources[schema.GroupVersionResource{Group: group.Name, Version: version.Version, Resource: resource.Resource}] = true
			}
		}
		if group.Name != "" {
			p.groups = append(p.groups, group)
		}
	}
}

// discovery fetches one discovery document.
func (s *Source) discovery(ctx context.Context, address, path string) ([]apidiscovery.APIGroupDiscovery, error) {
	at := url.URL{Scheme: "https", Host: address, Path: path}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	proxy.SetUser(r.Header, &request.User{Name: "system:apiserver", UID: "system:apiserver", Groups: []string{request.GroupAuthenticated}})
	r.Header.Set("Accept", ownDiscovery)
	r.Header.Set(proxiedHeader, "true")
	response, err := s.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("unexpected status %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxDiscovery+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxDiscovery {
		return nil, fmt.Errorf("the document is longer than %d bytes", maxDiscovery)
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decode the document: %w", err)
	}
	return list.Items, nil
}
