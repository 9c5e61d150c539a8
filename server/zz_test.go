package server
import ("testing";"time";"fmt";"context")
func TestZZ(t *testing.T){
 for i:=0;i<4;i++{
 dir:=t.TempDir()
 for j:=0;j<2;j++{
 t0:=time.Now(); lap:=func(n string){fmt.Printf("%s %.1fms; ",n,float64(time.Since(t0).Microseconds())/1000); t0=time.Now()}
 s,err:=New(Config{DataDir:dir}); if err!=nil{t.Fatal(err)}
 lap("new")
 s.dir,_=openDataDir(s.config.DataDir); lap("dir")
 s.openPKI(); lap("pki")
 s.openStorage(); lap("store")
 s.startFeed(); lap("feed")
 s.api,err=s.installAPI(); if err!=nil{t.Fatal(err)}; lap("api")
 s.bootstrap(context.Background()); lap("boot")
 s.installPaths(); lap("paths")
 s.close(); lap("close"); fmt.Println()
 }}
}
