// Package etcdtest runs real etcd for a test: one member or several, over TLS if
// wanted, whose members can be stopped, started again and cut off. The members are
// processes of etcd's own program, at the version that the module test/tools names:
// etcd's server is no dependency of this module. It is for tests alone; nothing
// that ships imports it.
package etcdtest
