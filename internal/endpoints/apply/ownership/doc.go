// Package ownership maintains managed fields like apimachinery's managedfields over
// structured-merge-diff, at a lower cost: it walks an object once with a plan of its Go type and
// merge schema, and creates field sets for changes only. It does not convert between versions and
// reports no errors. For a case that it does not support exactly, it changes nothing and reports
// this, and the caller uses apimachinery.
package ownership
