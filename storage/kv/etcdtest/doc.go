// Package etcdtest runs real etcd inside a test: one member or several, over TLS
// if wanted, whose members can be stopped, started again and cut off. It is for
// tests alone; nothing that ships imports it.
//
// Imports: nothing of ours.
package etcdtest
