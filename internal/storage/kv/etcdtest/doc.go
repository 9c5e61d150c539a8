// Package etcdtest runs a real etcd for a test: one or several members, optionally with TLS, which
// can be stopped, restarted and partitioned. The members are processes of etcd's own binary, at the
// version in the module test/tools, so etcd's server is not a dependency of this module. It must
// only be imported by tests.
package etcdtest
