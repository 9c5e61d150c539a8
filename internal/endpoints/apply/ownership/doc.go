// Package ownership keeps the managed fields of an object, who owns which, the
// way apimachinery's managedfields does over structured-merge-diff, but cheaply:
// an object is walked once along a plan made of its Go type and its merge
// schema, and only what changed is turned into sets of fields. It does not
// convert between versions and reports no errors of its own: what it does not
// cover exactly it leaves alone and says so, and the caller asks apimachinery.
package ownership
