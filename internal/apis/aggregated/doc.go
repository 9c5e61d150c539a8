// Package aggregated implements the aggregation layer. It follows APIServices, proxies requests to their
// servers, checks their availability, and caches their discovery and OpenAPI documents. It also autoregisters
// the APIServices of the group versions that this server serves itself. Requests must be authorized before they
// are proxied.
package aggregated
