package controlplane

import (
	"mainstay.dev/mainstay/internal/egress"
	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/loopback"
)

// connections contains the proxies and resolvers for connections to other servers.
type connections struct {
	proxy *proxy.Proxy
	// nodes is the proxy for connections to nodes, pods and services. It applies
	// RequestOptions.MaxConnectionBytesPerSecond.
	nodes *proxy.Proxy
	// cluster reads services and their endpoints. resolver returns the address of a service.
	cluster  egress.Cluster
	resolver egress.Resolver
	networks egress.Networks
}

func newConnections(s *settings, access *loopback.Access) *connections {
	c := &connections{
		proxy:    &proxy.Proxy{Stopping: s.env.Shutdown.Tunnels, Logger: s.env.Telemetry.Logger},
		cluster:  newCluster(access),
		networks: s.env.Network.Networks,
	}
	c.nodes = &proxy.Proxy{Stopping: s.env.Shutdown.Tunnels, Logger: s.env.Telemetry.Logger, MaxBytesPerSecond: s.options.Requests.MaxConnectionBytesPerSecond}
	c.resolver = &egress.Services{Cluster: c.cluster, ToEndpoints: s.options.Aggregation.RouteToEndpoints, Self: s.env.Network.Address}
	c.networks.Cluster = c.networks.Cluster.Except(s.env.Network.Address) // the server connects to itself directly
	return c
}
