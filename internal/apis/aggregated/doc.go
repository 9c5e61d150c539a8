// Package aggregated is the aggregation layer: it follows APIServices, proxies
// requests to the servers behind them, checks their availability, and caches
// their discovery and OpenAPI documents. It also autoregisters the APIServices of
// the group versions that this server serves itself. It neither authorizes
// requests nor serves documents.
package aggregated
