// Package etcdtest runs real etcd clusters for tests. A cluster has one or several members, optionally with
// TLS, which can be stopped, restarted and partitioned. The members run etcd's own binary, at the version in
// the module test/tools, so etcd's server is not a dependency of this module. Only tests may import this
// package.
package etcdtest
