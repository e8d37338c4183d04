@echo off
rem Receives video, and shows it in a browser. Ctrl-C ends it.
setlocal
cd /d "%~dp0"
if not exist "%USERPROFILE%\Videos\Anabranch" mkdir "%USERPROFILE%\Videos\Anabranch"
start "" http://127.0.0.1:9100/
bin\anabranch.exe recv --pair --keep-listening --dashboard 127.0.0.1:9100 ^
    "%USERPROFILE%\Videos\Anabranch\{time}.ts"
pause
