package upstream
import (
 _ "k8s.io/apiserver/pkg/storage/testing"
 _ "k8s.io/apiserver/pkg/apis/example/v1"
 _ "mainstay.dev/mainstay/storage/cache"
 _ "mainstay.dev/mainstay/storage/kv/embedded"
)
