// Package ownership maintains managed fields like apimachinery's managedfields over
// structured-merge-diff, at a lower cost: it walks an object once with a plan of its Go type and
// merge schema, and creates field sets only for changes. It does not convert between versions and
// does not return errors. In a case that it does not support exactly, it changes no object and
// reports false, and the caller uses apimachinery.
package ownership
