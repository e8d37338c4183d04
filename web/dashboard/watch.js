// One live picture: /watch?stream=NAME; `bare` leaves out the line about it.

import { LivePicture } from './live.js';

const wanted = new URLSearchParams(location.search);
document.body.classList.toggle('bare', wanted.has('bare'));

/** The stream's name, once there is a stream: the wanted one, or the first. */
async function nameOfStream() {
  for (;;) {
    const name = wanted.get('stream');
    if (name) return name;
    const { stream } = await fetch('picture.json').then((answer) => answer.json())
      .catch(() => ({}));
    if (stream) return stream;
    await new Promise((resolve) => { setTimeout(resolve, 1_000); });
  }
}

const name = await nameOfStream();
document.title = `${name} – Anabranch picture`;
document.getElementById('picture').append(new LivePicture(name).root);
