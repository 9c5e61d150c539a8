// Package policies tests typical published admission policies on one server, each with objects that the policy
// allows, rejects or changes.
package policies
