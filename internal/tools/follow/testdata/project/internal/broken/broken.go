// Package broken does not compile after the update.
package broken

import appsv1 "k8s.io/api/plain"

// Old was removed.
const Old = appsv1.Old
